"""What a result between two streaming regions costs."""
