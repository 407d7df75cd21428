# Delta and Iceberg are not published for the PySpark of development: their tests have an environment of their own.
TABLES_PY := .venv-tables/bin/python

tables-install: ## make .venv-tables, with the PySpark that Delta and Iceberg are published for, and build their jars
	@test -x $(TABLES_PY) || python3 -m venv .venv-tables
	@$(TABLES_PY) -m pip install -q --upgrade "pip>=25.1"
	@$(TABLES_PY) -m pip install -q --group dev -e .
	@$(TABLES_PY) -m pip install -q "pyspark==4.1.*"
	@$(TABLES_PY) -m verification build_jar
	@$(TABLES_PY) -m verification build_lake_jar

tables: tables-install ## the tests of Delta and Iceberg tables, on the PySpark that they are published for (ARGS="-k append")
	@$(TABLES_PY) -m pytest -q tests/tables $(ARGS)

tables-catalogs: tables-install ## the tests of Iceberg tables with a Hadoop, JDBC, REST and Hive catalog (ARGS="--only rest --tests streams")
	@$(TABLES_PY) -m verification table_catalogs $(ARGS)

tables-nightly: tables-install ## the nightly ETL with Delta or Iceberg tables for targets (ARGS="--tables delta --days 3")
	@$(TABLES_PY) -m verification nightly $(ARGS)

tables-nights: tables-install ## 500 nights over Delta and Iceberg tables, with deletions, compaction, VACUUM and gc in between (ARGS="--nights 40 --only delta")
	@$(TABLES_PY) -m verification table_nights $(ARGS)

bench-tables: tables-install ## bytes and CPU of a publication into a table, against writing the rows again (ARGS="--rounds 4 --only delta")
	@$(TABLES_PY) -m verification bench_tables $(ARGS)

tables-kills: tables-install ## drivers that publish into Delta tables die by kill -9, publish at once, wake up late (ARGS="--kills 10 --only append")
	@$(TABLES_PY) -m verification table_kills $(ARGS)

.PHONY: tables-install tables tables-catalogs tables-nightly tables-nights bench-tables tables-kills
