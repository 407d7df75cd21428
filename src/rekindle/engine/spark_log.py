"""Spark's own log, sent to a file: the user reads what happens, not a thousand lines about lost connections.

Without pyspark: whoever starts a process that starts Spark needs it too.
"""

from __future__ import annotations

TO_FILE = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
