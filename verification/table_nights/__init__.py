"""500 nights over tables of Delta and Iceberg, with what people do to tables in between."""
