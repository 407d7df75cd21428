"""The names that the determinism table knows, as Spark 4.1 to 4.3 call their operators and expressions.

A name belongs here if it was tried. What is not here is unknown. Left out on purpose, because they keep whichever row
came first or last: First, Last, AnyValue, MaxBy, MinBy, Mode, CollectList, CollectSet, ListAgg; because they add
doubles: variance and its kin; because they depend on the order of merging: sketches and approximate percentiles. Those
in PLACED are known in a total order alone. PivotFirst is here: there is one row for each cell of a pivot, made by an
aggregate below it. The session's time zone is pinned, so its name is no query constant.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OPERATORS = _names(
    """
    Project Filter Aggregate Join Union SubqueryAlias View LogicalRelation Range LocalRelation Distinct Except
    Intersect Expand Generate RepartitionByExpression ResolvedHint WithCTE CTERelationDef CTERelationRef OneRowRelation
    HintInfo Sort Repartition RebalancePartitions CollectMetrics LateralJoin Window Deduplicate
    """
)
# They are known where they are read at one version.
CATALOG_TABLES = _names("DataSourceV2Relation DataSourceV2ScanRelation")
LIMITS = _names("GlobalLimit LocalLimit Offset")
SAME_COLUMNS = LIMITS | _names(
    """
    Filter SubqueryAlias View Sort Repartition RepartitionByExpression RebalancePartitions Distinct Deduplicate
    ResolvedHint CollectMetrics
    """
)
BASIC = _names(
    """
    AttributeReference Alias Literal Cast OuterReference UpCast SortOrder HashPartitioning
    EqualTo EqualNullSafe EqualNull LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual Between In InSet And Or Not
    IsNull IsNotNull IsNaN AtLeastNNonNulls CaseWhen If Coalesce NaNvl NullIf NullIfResult Nvl Nvl2 ZeroIfNull
    NullIfZero TypedNullLiteral With CommonExpressionDef CommonExpressionRef KnownNullable TypeOf RaiseError AssertTrue
    ScalarSubquery Exists ListQuery InSubquery LateralSubquery
    """
)
NUMBERS = _names(
    """
    Add Subtract Multiply Divide Remainder Pmod IntegralDivide UnaryMinus UnaryPositive Abs Round BRound Floor Ceil Sqrt
    Rint Signum Factorial WidthBucket Greatest Least TryAdd TrySubtract TryMultiply TryDivide TryEval
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseCount ShiftLeft ShiftRight ShiftRightUnsigned BitmapBitPosition
    Hex Unhex Bin Conv Md5 Sha1 Sha2 Crc32 Murmur3Hash XxHash64
    """
)
STRINGS = _names(
    """
    Concat ConcatWs Substring SubstringIndex Left Right Length OctetLength BitLength Upper Lower InitCap
    StringTrim StringTrimLeft StringTrimRight StringTrimBoth StringLPad StringRPad StringReplace StringTranslate
    StringInstr StringLocate StringRepeat StringSpace StringSplit SplitPart Overlay Reverse Like ILike RLike
    RegExpExtract RegExpExtractAll RegExpReplace RegExpCount RegExpSubStr RegExpInStr Contains StartsWith EndsWith
    FormatNumber FormatString ToCharacter ToNumber TryToNumber Ascii Chr Elt FindInSet Levenshtein SoundEx Luhncheck
    Mask Quote Sentences StringToMap Base64 UnBase64 Encode Decode StringDecode UrlEncode UrlDecode ParseUrl
    Collate ResolvedCollation
    """
)
TIMES = _names(
    """
    DateAdd DateSub DateDiff DatetimeSub DateAddInterval DateAddYMInterval TimestampAddInterval TimestampAddYMInterval
    ExtractANSIIntervalDays SubtractDates SubtractTimestamps TimestampAdd TimestampDiff MonthsBetween AddMonths NextDay
    LastDay DateFormatClass TruncDate TruncTimestamp Extract Year Month MonthName DayOfMonth DayOfWeek DayOfYear DayName
    WeekDay WeekOfYear Quarter Hour Minute Second ToUnixTimestamp UnixTimestamp UnixSeconds UnixMillis UnixMicros
    UnixDate FromUnixTime DateFromUnixDate SecondsToTimestamp MillisToTimestamp MicrosToTimestamp GetTimestamp
    ParseToDate ParseToTimestamp MakeDate MakeTimestamp MakeInterval MakeDTInterval MakeYMInterval FromUTCTimestamp
    ToUTCTimestamp ConvertTimezone CurrentTimeZone PreciseTimestampConversion
    """
)
NESTED = _names(
    """
    CreateNamedStruct GetStructField UpdateFields WithField DropField
    CreateArray GetArrayItem Get ElementAt TryElementAt Size ArraySize ArrayContains SortArray ArraySort Sequence
    ArrayTransform ArrayFilter ArrayAggregate ArrayExists ArrayForAll ZipWith LambdaFunction NamedLambdaVariable
    ArrayMin ArrayMax ArrayDistinct ArrayUnion ArrayIntersect ArrayExcept ArrayJoin ArrayPosition ArrayRemove
    ArrayAppend ArrayPrepend ArrayInsert ArrayCompact ArraysOverlap ArraysZip ArrayRepeat Flatten Slice
    CreateMap GetMapValue MapKeys MapValues MapEntries MapFromArrays MapFromEntries MapConcat MapFilter MapContainsKey
    TransformKeys TransformValues MapZipWith Explode PosExplode Inline Stack
    StructsToJson JsonToStructs GetJsonObject JsonTuple LengthOfJsonArray JsonObjectKeys SchemaOfJson CsvToStructs
    StructsToCsv ParseJson VariantGet XPathString
    """
)
AGGREGATES = _names(
    """
    AggregateExpression Count CountIf RegrCount Sum Min Max Average BitAndAgg BitOrAgg BitXorAgg BoolAnd BoolOr
    HyperLogLogPlusPlus Percentile Median PercentileCont PercentileDisc PivotFirst
    """
)
LISTS = _names("CollectList CollectSet")
RANKS = _names("Rank DenseRank PercentRank CumeDist")
WINDOWS = RANKS | _names(
    "WindowExpression WindowSpecDefinition SpecifiedWindowFrame CurrentRow UnboundedPreceding UnboundedFollowing"
)
# What these say of a row depends on the rows before and behind it.
PLACED = _names("RowNumber NTile Lag Lead NthValue")
KNOWN = OPERATORS | LIMITS | BASIC | NUMBERS | STRINGS | TIMES | NESTED | AGGREGATES | WINDOWS

EXACT_ONLY = _names("Sum Average Min Max Percentile Median PercentileCont PercentileDisc")
WINDOWED = _names("Sum Average Count CountIf Min Max BitAndAgg BitOrAgg BitXorAgg BoolAnd BoolOr")
MAKES_DOUBLES = _names(
    "MonthsBetween PercentRank CumeDist Signum Rint Sqrt ZeroIfNull NullIfZero TryAdd TrySubtract TryMultiply TryDivide"
)
READS_DECIMALS = _names("ToNumber TryToNumber JsonToStructs CsvToStructs VariantGet")
TELLS_MAP_ORDER = _names("MapKeys MapValues MapEntries Explode PosExplode StructsToJson StructsToCsv")
CHOOSES = _names("Coalesce Greatest Least Nvl")
NO_TEXT = (TIMES - _names("FromUnixTime DateFormatClass MonthName DayName CurrentTimeZone")) | _names(
    "Add Subtract Multiply Divide IntegralDivide Remainder Pmod UnaryMinus UnaryPositive Abs Round BRound Floor Ceil"
)
ASKS_MAP = _names("GetMapValue ElementAt TryElementAt Size MapContainsKey")
COMPARES = _names("Aggregate Deduplicate Min Max Window")
COMPARES_ROWS = _names("Distinct Intersect Except")

TRANSCENDENTAL = _names(
    """
    Exp Expm1 Log Log10 Log1p Log2 Logarithm Pow Cbrt Hypot Sin Cos Tan Cot Sec Csc Asin Acos Atan Atan2 Sinh Cosh Tanh
    Asinh Acosh Atanh ToDegrees ToRadians
    """
)
INDETERMINATE = _names(
    """
    Rand Randn RandStr Uniform Uuid Shuffle Sample MonotonicallyIncreasingID SparkPartitionID InputFileName
    InputFileBlockStart InputFileBlockLength
    """
)
QUERY_CONSTANTS = _names(
    """
    CurrentTimestamp CurrentDate LocalTimestamp Now CurrentTime CurrentTimestampLike CurDateExpressionBuilder
    CurrentUser CurrentCatalog CurrentDatabase SparkVersion
    """
)
