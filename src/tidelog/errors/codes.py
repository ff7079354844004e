"""Every error code, by area, with what it means; `tests/errors` has an example of each."""

from __future__ import annotations

from typing import Final

# ---- syntax

UNEXPECTED_CHARACTER: Final = "E101"
UNTERMINATED_STRING: Final = "E102"
UNTERMINATED_COMMENT: Final = "E103"
MALFORMED_IRI: Final = "E104"
BAD_ESCAPE: Final = "E105"
BAD_NUMBER: Final = "E106"
UNEXPECTED_TOKEN: Final = "E107"
MISSING_FULL_STOP: Final = "E108"
MISSING_COMMA: Final = "E109"
FOREIGN_ARROW: Final = "E110"
FOREIGN_NEGATION: Final = "E111"
FOREIGN_OPERATOR: Final = "E112"
UNKNOWN_DIRECTIVE: Final = "E113"
FOREIGN_DIRECTIVE: Final = "E114"
METRIC_WORD: Final = "E115"
HEAD_NOT_ALLOWED: Final = "E116"
MISPLACED_ATTRIBUTE: Final = "E117"
NESTED_TOO_DEEPLY: Final = "E118"
UNKNOWN_AGGREGATE: Final = "E119"
BAD_FORMAT_STRING: Final = "E120"
UNCLOSED_BRACKET: Final = "E121"
FOREIGN_VARIABLE: Final = "E122"
FOREIGN_COMMENT: Final = "E123"

SYNTAX_MEANINGS: Final = {
    UNEXPECTED_CHARACTER: "a character that cannot begin a token",
    UNTERMINATED_STRING: "a string without its closing quotes",
    UNTERMINATED_COMMENT: "a comment without its closing `*/`",
    MALFORMED_IRI: "an IRI without its closing `>`, or with a character that IRIs may not hold",
    BAD_ESCAPE: "an invalid escape in a string",
    BAD_NUMBER: "a number with something else attached to it",
    UNEXPECTED_TOKEN: "a token where the grammar expects another one",
    MISSING_FULL_STOP: "a statement without its full stop",
    MISSING_COMMA: "two things in a list without a comma between them",
    FOREIGN_ARROW: "a rule arrow of another language, such as `<-`",
    FOREIGN_NEGATION: "a negation of another language, such as `not p` or `!p`",
    FOREIGN_OPERATOR: "an operator of another language, such as `==` or `is`",
    UNKNOWN_DIRECTIVE: "a directive that does not exist",
    FOREIGN_DIRECTIVE: "a directive of another language, such as `.decl`",
    METRIC_WORD: "a metric operator used as a name, without its interval, or in a chain",
    HEAD_NOT_ALLOWED: "a head that is neither an atom nor an equality, or has other operators than boxes",
    MISPLACED_ATTRIBUTE: "an attribute before something other than a fact or rule",
    NESTED_TOO_DEEPLY: "an expression nested more deeply than the parser allows",
    UNKNOWN_AGGREGATE: "an aggregate that does not exist",
    BAD_FORMAT_STRING: "a format string with unbalanced or empty braces",
    UNCLOSED_BRACKET: "a bracket that is never closed",
    FOREIGN_VARIABLE: "a variable without its question mark",
    FOREIGN_COMMENT: "a comment of another language, such as `// …`",
}


# ---- resolving

# names
CANNOT_INCLUDE: Final = "E201"
PREFIX_DECLARED_TWICE: Final = "E202"
UNKNOWN_PREFIX: Final = "E203"
BASE_DECLARED_TWICE: Final = "E204"
UNKNOWN_PARAMETER: Final = "E205"
PARAMETER_WITHOUT_VALUE: Final = "E206"
PARAMETER_DECLARED_TWICE: Final = "E207"
ARITY_MISMATCH: Final = "E210"
PREDICATE_DECLARED_TWICE: Final = "E211"
UNKNOWN_COLUMN_TYPE: Final = "E212"
COLUMN_NAMED_TWICE: Final = "E213"
UNKNOWN_PREDICATE: Final = "E214"
RESERVED_PREDICATE: Final = "E215"
UNKNOWN_FORMAT: Final = "E220"
UNKNOWN_OPTION: Final = "E221"
MISSING_RESOURCE: Final = "E222"
BAD_OPTION_VALUE: Final = "E223"
OPTION_GIVEN_TWICE: Final = "E224"

# safety, strata, types, aggregates
UNSAFE_VARIABLE: Final = "E301"
VARIABLE_WITHOUT_BODY: Final = "E302"
ANONYMOUS_WITHOUT_VALUE: Final = "E303"
NOT_STRATIFIED: Final = "E310"
CONSTANT_OF_OTHER_TYPE: Final = "E320"
VARIABLE_OF_TWO_TYPES: Final = "E321"
AGGREGATE_OUTSIDE_HEAD: Final = "E330"
AGGREGATE_IN_FACT: Final = "E331"
NESTED_AGGREGATE: Final = "E332"
EXISTENTIAL: Final = "E340"
BAD_TIME: Final = "E350"
TIME_IN_RULE: Final = "E351"
MISPLACED_OPERATOR: Final = "E352"
TIMED_AGGREGATE: Final = "E353"
SEVERAL_TIMES: Final = "E354"
TIMED_EQUALITY: Final = "E355"
CHANGE_IN_PROGRAM: Final = "E393"
COMMIT_IN_PROGRAM: Final = "E394"

# functions and values
UNKNOWN_FUNCTION: Final = "E401"
FUNCTION_ARITY: Final = "E402"
NO_VALUE: Final = "E403"
BAD_LITERAL: Final = "E404"
OVERFLOW: Final = "E405"

# warnings
SINGLE_VARIABLE: Final = "W101"
EMPTY_PREDICATE: Final = "W102"
UNKNOWN_ATTRIBUTE: Final = "W103"
FOREIGN_VARIABLES: Final = "W104"
NEVER_MATCHES: Final = "W105"

# What these refuse is missing from the program, so what seems empty may not be.
LEFT_OUT: Final = frozenset(
    {
        CHANGE_IN_PROGRAM,
        COMMIT_IN_PROGRAM,
    }
)

# Python warns of these when a program is read; `program.warnings` has all warnings.
HARDLY_MEANT: Final = frozenset({FOREIGN_VARIABLES, NEVER_MATCHES})

# Errors that may only follow from a statement that could not be read: it may have declared what is missing.
FOLLOW_UPS: Final = frozenset(
    {
        UNKNOWN_PREFIX,
        UNKNOWN_PARAMETER,
        UNKNOWN_PREDICATE,
    }
)

LOGIC_MEANINGS: Final = {
    CANNOT_INCLUDE: "an included file that cannot be read",
    PREFIX_DECLARED_TWICE: "a prefix declared twice in a file, with different IRIs",
    UNKNOWN_PREFIX: "a prefix that is not declared",
    BASE_DECLARED_TWICE: "a base declared twice in a file",
    UNKNOWN_PARAMETER: "a parameter that is used or given, but not declared",
    PARAMETER_WITHOUT_VALUE: "a parameter with neither a default nor a given value",
    PARAMETER_DECLARED_TWICE: "a parameter declared twice",
    ARITY_MISMATCH: "a predicate used with different numbers of arguments",
    PREDICATE_DECLARED_TWICE: "a predicate declared twice, with different columns",
    UNKNOWN_COLUMN_TYPE: "a column type that does not exist",
    COLUMN_NAMED_TWICE: "two columns of a predicate with one name",
    UNKNOWN_PREDICATE: "a requested predicate that occurs nowhere, or whose columns are unknown",
    RESERVED_PREDICATE: "a built-in name used as a predicate, or a built-in predicate with arguments",
    UNKNOWN_FORMAT: "a data format that does not exist",
    UNKNOWN_OPTION: "an option that the data format does not have",
    MISSING_RESOURCE: "an import that does not say from where",
    BAD_OPTION_VALUE: "an option with a value of the wrong kind",
    OPTION_GIVEN_TWICE: "an option given twice",
    UNSAFE_VARIABLE: "a variable that nothing in the body binds",
    VARIABLE_WITHOUT_BODY: "a variable in a fact, a parameter or an option, where nothing can bind it",
    ANONYMOUS_WITHOUT_VALUE: "`_` where a value is needed",
    NOT_STRATIFIED: "recursion through negation or an aggregate",
    CONSTANT_OF_OTHER_TYPE: "a constant that is not of its column's declared type",
    VARIABLE_OF_TWO_TYPES: "a variable in columns whose declared types have no value in common",
    AGGREGATE_OUTSIDE_HEAD: "an aggregate outside the head of a rule",
    AGGREGATE_IN_FACT: "an aggregate in a fact",
    NESTED_AGGREGATE: "an aggregate inside an aggregate",
    EXISTENTIAL: "an existential variable",
    BAD_TIME: "a bound that is not a time, or an empty interval",
    TIME_IN_RULE: "a time at an atom of a rule: times belong to facts and queries",
    MISPLACED_OPERATOR: "a metric operator at a fact, or around a function",
    TIMED_AGGREGATE: "an aggregate over temporal facts",
    SEVERAL_TIMES: "a query with two variables for the time",
    TIMED_EQUALITY: "equality in a head, in a program with temporal facts",
    CHANGE_IN_PROGRAM: "a signed fact or rule in a program: it belongs in a change script",
    COMMIT_IN_PROGRAM: "a commit, or time that advances, in a program",
    UNKNOWN_FUNCTION: "a function that does not exist",
    FUNCTION_ARITY: "a function with too few or too many arguments",
    NO_VALUE: "a constant expression without a value, such as a division by zero",
    BAD_LITERAL: "a literal whose text is not valid for its datatype",
    OVERFLOW: "a constant expression that overflows 64 bits",
    SINGLE_VARIABLE: "a variable that occurs once in a rule",
    EMPTY_PREDICATE: "a predicate with neither facts, imports nor rules",
    UNKNOWN_ATTRIBUTE: "an attribute that does not exist",
    FOREIGN_VARIABLES: "a rule with names where Prolog has variables, such as `X`: they are constants here",
    NEVER_MATCHES: "a join, comparison or argument whose types can never match, or never have a value",
}


# ---- data and files

MISFIT = "E866"


RETIRED = "E872"

NOT_FOUND: Final = "E501"
NOT_OF_FORMAT: Final = "E502"
WRONG_WIDTH: Final = "E503"
NOT_OF_TYPE: Final = "E504"
NOT_UTF_8: Final = "E505"
NOT_JSON: Final = "E506"
NOT_RDF: Final = "E507"
PACKAGE_MISSING: Final = "E508"
BAD_OPTION: Final = "E509"
# E510 is a Python object without a value, in `logic.conversions`.
NOT_A_VALUE: Final = "E510"
OPEN_QUOTE: Final = "E511"
COLUMN_MISSING: Final = "E512"
NO_SUCH_VALUES: Final = "E513"
NOT_ROWS: Final = "E514"
NOT_WRITABLE: Final = "E515"
NEEDS_QUOTES: Final = "E516"
NOT_A_STATEMENT: Final = "E517"
NOT_SPARQL: Final = "E518"
MALFORMED: Final = "E519"
ENTITIES: Final = "E520"
TOO_DEEP: Final = "E521"
TEXT_IS_A_PATH: Final = "E526"
NO_SUCH_COLUMN: Final = "E527"
MORE_BAD_ROWS: Final = "E528"
NOT_ALLOWED: Final = "E529"

DATA_MEANINGS: Final = {
    NOT_FOUND: "a file that does not exist or cannot be opened",
    NOT_OF_FORMAT: "a file whose format is not known, or that is not of its format",
    WRONG_WIDTH: "a row, or a table, with too few or too many columns",
    NOT_OF_TYPE: "a value that is missing, or not of its column's type",
    NOT_UTF_8: "text that is not UTF-8",
    NOT_JSON: "a file or a line that is not JSON, or not rows",
    NOT_RDF: "a statement that is malformed, or has a term that is not supported",
    PACKAGE_MISSING: "a format that needs a package that is not installed",
    BAD_OPTION: "an option of an import or export with a value that it cannot have",
    OPEN_QUOTE: "a quoted text without its closing quote",
    COLUMN_MISSING: "a declared column that the header does not name",
    NO_SUCH_VALUES: "a column of an Arrow type that is not supported",
    NOT_ROWS: "a Python object that is not rows, or columns of several lengths",
    NOT_WRITABLE: "a file that cannot be written",
    NEEDS_QUOTES: "text that cannot be written without quotes",
    NOT_A_STATEMENT: "a row that cannot be written as a statement of RDF",
    NOT_SPARQL: "a query that is not SPARQL",
    MALFORMED: "Arrow data that is damaged: buffers that do not fit together, or text that is not UTF-8",
    ENTITIES: "a file of RDF/XML with entities that are external, too long or too many",
    TOO_DEEP: "data, or a query of SPARQL, that is nested too deeply",
    TEXT_IS_A_PATH: "in Python, the path of a file where the text of a program is expected",
    NO_SUCH_COLUMN: "a column of a relation that does not exist",
    MORE_BAD_ROWS: "rows that cannot be read, beyond those that are shown",
    NOT_ALLOWED: "a file that the program [may not](cli.md#untrusted-programs) read or write",
    NOT_A_VALUE: "a Python object that is not a supported value",
}


# ---- stores

STORE_LOCKED: Final = "E830"
NO_STORE: Final = "E831"
NEWER: Final = "E832"
STORE_DAMAGED: Final = "E833"
NOT_WRITTEN: Final = "E834"
NOT_STORABLE: Final = "E835"
CLOSED: Final = "E836"
READ_ONLY: Final = "E837"
FORKED: Final = "E838"
BACKWARDS: Final = "E839"

STORE_MEANINGS: Final = {
    STORE_LOCKED: "a store that another process is writing to",
    NO_STORE: "a folder that holds no store, and no program to create one from",
    NEWER: "a store in a newer format than this version reads",
    STORE_DAMAGED: "a store with missing or damaged files",
    NOT_WRITTEN: "a store that cannot be written to, such as on a full disk; nothing was changed",
    NOT_STORABLE: "a program or a setting whose state a store cannot hold yet",
    CLOSED: "a change to a store that is closed, or that takes no more changes after a fault",
    READ_ONLY: "a change to a store that was opened for reading",
    FORKED: "a change to a store in a process that was forked from the one that opened it",
    BACKWARDS: "a batch whose number is too low, or that has been applied already",
}


# ---- published folders and foreign tables

NO_VERSION: Final = "E901"
NO_TABLE: Final = "E902"
FORMAT: Final = "E903"
PUBLISH_LOCKED: Final = "E904"
PENDING: Final = "E905"
NO_SUCH_TYPE: Final = "E906"
WRONG_FILE: Final = "E907"
NOT_THERE: Final = "E908"
TWICE: Final = "E909"
PUBLISH_DAMAGED: Final = "E910"
STORAGE: Final = "E911"
FEATURE: Final = "E912"
NO_CHANGES: Final = "E913"
PUBLISH_PACKAGE_MISSING: Final = "E914"
CONFLICT: Final = "E915"
NOT_READABLE: Final = "E916"

PUBLISH_MEANINGS: Final = {
    NO_VERSION: "a version that is not published, or no longer, or a folder without any",
    NO_TABLE: "a table that a published version does not have",
    FORMAT: "a folder in another format than the one asked for, or a format that does not exist",
    PUBLISH_LOCKED: "a published folder that another process is writing to",
    PENDING: "a version that was not completed, and only its job can complete or discard",
    NO_SUCH_TYPE: "a column, or a name, that tables in this format cannot have",
    WRONG_FILE: "a data file that does not have the columns, types or values of its table",
    NOT_THERE: "a row to delete that a published table does not have",
    TWICE: "a table that is changed twice in one version, or a version that is used after its commit",
    PUBLISH_DAMAGED: "a published folder with missing or damaged files",
    STORAGE: "an address or a storage setting that is not known, or an object store that cannot be reached",
    FEATURE: "a Delta or Iceberg table with a feature that is not supported",
    NO_CHANGES: "changes that are not available: no change feed, too old, or of other columns",
    PUBLISH_PACKAGE_MISSING: "a format whose package is not installed",
    CONFLICT: "a table that another process has written to at the same time",
    NOT_READABLE: "a Delta or Iceberg table that cannot be read",
}


# ---- job files, pipelines and published versions

NOT_TOML: Final = "E801"
UNKNOWN_KEY: Final = "E802"
BAD_VALUE: Final = "E803"
MISSING_KEY: Final = "E804"
NO_PREDICATE: Final = "E805"
NO_FILES: Final = "E806"
DRIFT: Final = "E807"
TOO_MANY_REJECTS: Final = "E808"
JOB_LOCKED: Final = "E809"
JOB_NO_VERSION: Final = "E810"
JOB_DAMAGED: Final = "E811"
NEEDS_SPARK: Final = "E812"
BAD_SINK: Final = "E813"
BAD_RECORD: Final = "E814"
LATE: Final = "E815"
NO_STREAM: Final = "E816"
TIMED: Final = "E817"
GUARD: Final = "E818"
EXPECTATION: Final = "E819"
NOT_A_REPORT: Final = "E820"
GUARD_WARNING: Final = "W818"
EXPECTATION_WARNING: Final = "W819"
NOT_SENT: Final = "W820"

PIPELINE_MEANINGS: Final = {
    NOT_TOML: "a job file that cannot be read, or is not TOML",
    UNKNOWN_KEY: "a key that a job file does not have",
    BAD_VALUE: "a value that a key of a job file cannot have",
    MISSING_KEY: "a key that a job file lacks",
    NO_PREDICATE: "a predicate that the program does not have, or not with that number of columns",
    NO_FILES: "a source without files",
    DRIFT: "a source, or a predicate, with other columns than in the last published version",
    TOO_MANY_REJECTS: "more rejected rows than the job allows",
    JOB_LOCKED: "a published folder that another process is writing to",
    JOB_NO_VERSION: "a version that is not published, or a folder without any",
    JOB_DAMAGED: "a published folder with missing or damaged files",
    NEEDS_SPARK: "a source, sink or engine that needs Spark where it is not available",
    BAD_SINK: "a sink that cannot write its predicate",
    BAD_RECORD: "a record of a stream that is not well formed",
    LATE: "a record of a stream that comes after later ones",
    NO_STREAM: "a stream that is not configured, or that has changed",
    TIMED: "time advanced by a pipeline, or records whose times do not match their predicate",
    GUARD: "a guard that a run does not satisfy: nothing was published",
    EXPECTATION: "an expectation that does not hold: nothing was published",
    NOT_A_REPORT: "a report or log of runs that cannot be read",
    GUARD_WARNING: "a guard that a run does not satisfy and that only warns",
    EXPECTATION_WARNING: "an expectation that does not hold and that only warns, or drops rows",
    NOT_SENT: "an OpenLineage event that could not be written or sent",
}


# ---- programs as functions of frames

NO_SUCH_PREDICATE: Final = "E860"
WRONG_COLUMNS: Final = "E861"
NO_SUCH_SPARK_TYPE: Final = "E862"
STREAMING: Final = "E863"
TRANSFER: Final = "E864"
NO_SESSION: Final = "E867"
NOT_SHIPPED: Final = "E868"
FAILED: Final = "E869"
FRAMES_NOT_WRITTEN: Final = "E870"
SPARK_FORMAT: Final = "E871"
STRATEGY: Final = "E873"
NOT_A_DISK: Final = "E875"
UNTYPED: Final = "E876"
OPERATION: Final = "E877"
NOT_COMPARABLE: Final = "E878"
NOT_PUBLISHED: Final = "E879"
TIMED_FRAMES: Final = "E880"
NO_MEMORY: Final = "E882"
NOT_REDERIVED: Final = "E881"
SOURCE_WITHOUT_FILES: Final = "E895"
SOURCE_NOT_READABLE: Final = "E896"
OTHER_COLUMNS: Final = "E897"
FILTER: Final = "E898"
CALL: Final = "E890"
OPTION: Final = "E891"
NO_LAYOUT: Final = "E892"

SPARK_MEANINGS: Final = {
    NO_SUCH_PREDICATE: "a frame for a predicate, or an output, that the program does not have",
    WRONG_COLUMNS: "a frame whose columns are not those of its predicate",
    NO_SUCH_SPARK_TYPE: "a column of a Spark type that is not supported",
    STREAMING: "a streaming frame: each micro-batch would be evaluated alone",
    TRANSFER: "a program with imports or exports where only frames are read and written",
    MISFIT: "a derived value that the type of its column cannot hold",
    NO_SESSION: "no Spark session, and no frame to take it from",
    NOT_SHIPPED: "a worker of Spark without tidelog, or without what it needs",
    FAILED: "a job of Spark that failed",
    FRAMES_NOT_WRITTEN: "where `derived.save` cannot write",
    SPARK_FORMAT: "an import or export in a format, or with options, that Spark does not have",
    STRATEGY: "a strategy, or a number of tasks, by which a program cannot run",
    RETIRED: "the Spark engine of `Reasoner`, which was removed",
    NOT_A_DISK: "a store at the address of an object store: stores need a disk",
    UNTYPED: "changes, or a table of a pipeline, for a predicate whose columns have no declared types",
    OPERATION: "a row of changes without a valid operation or order",
    NOT_COMPARABLE: "two versions of a table with different columns",
    NOT_PUBLISHED: "changes that could not be published: nothing was committed",
    TIMED_FRAMES: "temporal facts, which changes and tables of pipelines do not support",
    NOT_REDERIVED: "a change that cannot be applied to previously derived frames",
    SOURCE_WITHOUT_FILES: "a source without files",
    SOURCE_NOT_READABLE: "a source that Spark's session cannot read: it lacks the format, driver or table",
    OTHER_COLUMNS: "files of one source with different columns",
    FILTER: "a filter of a source that is not well formed",
    NO_MEMORY: "facts that do not fit in the memory of a task",
    CALL: "a call of the SQL function that has no correct result",
    OPTION: "options of the format `tidelog` that do not exist, or cannot be combined",
    NO_LAYOUT: "a frame to be published that is not `derived.facts`",
}


# ---- tasks that exchange facts

LOST: Final = "E690"
EXCHANGE_FAILED: Final = "E691"
COLLISION: Final = "E692"
NOT_DIVISIBLE: Final = "E693"
DIFFERENT: Final = "E694"

EXCHANGE_MEANINGS: Final = {
    LOST: "a task was lost, does not respond, or never started",
    EXCHANGE_FAILED: "a task failed for a reason other than the program or the data",
    COLLISION: "two values have the same hash; the run begins again with another seed",
    NOT_DIVISIBLE: "a program that cannot be divided among tasks",
    DIFFERENT: "tasks that run different programs, or versions of tidelog",
}


# ---- evaluation, transactions and queries

INCONSISTENT: Final = "E601"
INTEGER_OVERFLOW: Final = "E603"
TOO_MANY_LITERALS: Final = "E604"
UNEQUAL: Final = "E605"
EQUALITY_OFF: Final = "E606"
UNKNOWN_TREATMENT: Final = "E607"
NOT_OVER_REPRESENTATIVES: Final = "E608"
EQUALITY_OVER_TIME: Final = "E609"
TIMEOUT: Final = "E610"
TOO_MANY_FACTS: Final = "E611"
INTERRUPTED: Final = "E612"
OUT_OF_MEMORY: Final = "E613"
TIME_OUT_OF_RANGE: Final = "E614"
NOT_FINISHED: Final = "E615"
ENDLESS: Final = "E616"
TIME_NOT_CHANGED: Final = "E617"
UNKNOWN_PROCEDURE: Final = "E618"
NOT_A_TIME: Final = "E619"
UNKNOWN_ENGINE: Final = "E620"
UNKNOWN_RELATION: Final = "E621"
UNKNOWN_MAINTAINER: Final = "E622"
UNKNOWN_MARKING: Final = "E623"
NO_PYSPARK: Final = "E624"
NO_JAVA: Final = "E625"
OTHER_SESSION: Final = "E626"
SESSION_NOT_STARTED: Final = "E627"
NO_KERNELS: Final = "E628"
NOT_DRAWN: Final = "E629"
NOT_A_FACT: Final = "E630"
NOT_EXPLICIT: Final = "E631"
NO_SUCH_RULE: Final = "E632"
NOT_COMMITTED: Final = "E633"
PROGRAM_CHANGED: Final = "E634"
ALREADY_COMMITTED: Final = "E635"
UNSIGNED: Final = "E640"
NOT_IN_SCRIPTS: Final = "E641"
COMMIT_INSIDE: Final = "E642"
FINAL_TIME: Final = "E643"
NOT_ADVANCED: Final = "E644"
FORGOTTEN: Final = "E645"
ENDLESS_QUERY: Final = "E646"
NOT_RECOVERED: Final = "E647"
DELTA_LOST: Final = "E648"
UNKNOWN_STRATEGY: Final = "E650"
NOT_DERIVED: Final = "E651"
WRONG_BINDING: Final = "E652"
QUERY_CLOSED: Final = "E653"
DOES_NOT_HOLD: Final = "E655"
NOT_EXPLAINED: Final = "E656"
NOT_WHY_NOT: Final = "E657"
BAD_PATTERN: Final = "E685"
ROWS_DROPPED: Final = "W601"

REASONING_MEANINGS: Final = {
    INCONSISTENT: "`bottom()` is derived or explicit: the facts are inconsistent",
    INTEGER_OVERFLOW: "arithmetic that overflows 64 bits",
    TOO_MANY_LITERALS: "a rule with more literals than the engine takes",
    UNEQUAL: "constants that are equal but must not be: different literals, or names that must differ",
    EQUALITY_OFF: "a program with equality, where that is switched off",
    UNKNOWN_TREATMENT: "a treatment of equality that does not exist",
    NOT_OVER_REPRESENTATIVES: "something that equality by rewriting does not support",
    EQUALITY_OVER_TIME: "equality in a program with temporal facts",
    TIMEOUT: "the timeout was reached",
    TOO_MANY_FACTS: "more facts than `--max-facts`",
    INTERRUPTED: "interrupted",
    OUT_OF_MEMORY: "out of memory",
    TIME_OUT_OF_RANGE: "a time beyond 64 bits, in units of the finest time that occurs",
    NOT_FINISHED: "a negated predicate that is not complete after the allowed rounds",
    ENDLESS: "temporal rules that may derive facts for ever, without a limit",
    TIME_NOT_CHANGED: "a temporal transaction that is not supported, or a query whose answers would be kept",
    UNKNOWN_PROCEDURE: "a procedure for temporal rules that does not exist",
    NOT_A_TIME: "a time in data that cannot be read",
    UNKNOWN_ENGINE: "an engine that does not exist",
    UNKNOWN_RELATION: "a requested predicate that does not exist",
    UNKNOWN_MAINTAINER: "a maintainer that does not exist",
    UNKNOWN_MARKING: "a marking that does not exist, or that the maintainer does not do",
    NO_PYSPARK: "the Spark engine without the package pyspark",
    NO_JAVA: "no Java that Spark can run on",
    OTHER_SESSION: "a requested Spark session while another one runs",
    SESSION_NOT_STARTED: "a Spark session that does not start",
    NO_KERNELS: "compiled kernels that are missing, damaged or of another machine, and cannot be built",
    NOT_DRAWN: "a picture of facts without times, of an empty period, or in an unknown file format",
    NOT_A_FACT: "a fact to delete that does not exist",
    NOT_EXPLICIT: "a fact to delete that is derived, not explicit",
    NO_SUCH_RULE: "a rule to delete that does not exist",
    NOT_COMMITTED: "the delta of a transaction that is not committed",
    PROGRAM_CHANGED: "a transaction begun before another one changed the program",
    ALREADY_COMMITTED: "a transaction that is committed already",
    UNSIGNED: "a fact or rule without a sign in a change script",
    NOT_IN_SCRIPTS: "a directive in a change script that belongs in the program",
    COMMIT_INSIDE: "a commit inside a single transaction",
    FINAL_TIME: "a fact at a time that is final, as time has advanced",
    NOT_ADVANCED: "time that cannot advance: it would go back, or a rule looks ahead, or back without end",
    FORGOTTEN: "a query for what was forgotten, as time has advanced",
    ENDLESS_QUERY: "a query that reads facts that repeat for ever",
    NOT_RECOVERED: "a reasoner that cannot continue after a fault in a transaction, as time has advanced",
    DELTA_LOST: "a delta that was not read before a fault in a later transaction, where constants are equal",
    UNKNOWN_STRATEGY: "a strategy for queries that does not exist",
    NOT_DERIVED: "a query to be looked up whose relations are not derived yet",
    WRONG_BINDING: "values that do not fit the parameters of a prepared query",
    QUERY_CLOSED: "a prepared or live query that is used after it was closed",
    DOES_NOT_HOLD: "an explanation of a fact that does not hold",
    NOT_EXPLAINED: "an explanation that is not supported",
    NOT_WHY_NOT: "a question why not that is not about a single fact, or about one that holds",
    BAD_PATTERN: "a regular expression that RE2 does not support",
    ROWS_DROPPED: "rows that derive nothing because a function has no value for them",
}


# ---- single commands and ontologies

UNUSED_DATA: Final = "W701"
UNSTABLE_FORMAT: Final = "E702"
UNKNOWN_COMMAND: Final = "E703"
NOT_TRIPLES: Final = "E710"
OUTSIDE_RL: Final = "W710"

COMMAND_MEANINGS: Final = {
    UNUSED_DATA: "data for a predicate that the program does not have",
    UNSTABLE_FORMAT: "a program that `tidelog format` would change in meaning, so it is left alone",
    UNKNOWN_COMMAND: "a command that the interactive shell does not have",
    NOT_TRIPLES: "a program in which `triple` has other than three arguments, with an ontology",
    OUTSIDE_RL: "an axiom of an ontology, or a part of one, that lies outside OWL 2 RL",
}


MEANINGS: Final = {
    **SYNTAX_MEANINGS,
    **LOGIC_MEANINGS,
    **DATA_MEANINGS,
    **REASONING_MEANINGS,
    **COMMAND_MEANINGS,
    **STORE_MEANINGS,
    **PUBLISH_MEANINGS,
    **PIPELINE_MEANINGS,
    **SPARK_MEANINGS,
    **EXCHANGE_MEANINGS,
}
