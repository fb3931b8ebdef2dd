"""SQL without a JVM: the views of topics in DuckDB, over the same versions as through Spark; the dialect is DuckDB's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lakelog.errors import Damaged, InvalidConfig, InvalidRequest, LakelogError, NotFound, NotReady, TopicNotFound
from lakelog.latest import views
from lakelog.model.kinds import struct
from lakelog.model.point_in_time import At
from lakelog.model.queries import TELLING, begun, refusal, without_comments_before
from lakelog.native.rows import Rows, in_order, kind_of
from lakelog.native.topic import NativeTopic

if TYPE_CHECKING:
    import duckdb
    import pyarrow

# DuckDB's types of which Arrow or Python has no such values.
AS_TEXT = ("INTERVAL", "TIME WITH TIME ZONE", "TIME_NS", "BIT", "BIGNUM", "VARINT", "UHUGEINT")
NAMES_ONE = re.compile(rf"\b(?:{'|'.join(AS_TEXT)})\b")
NESTED = ("list", "array", "map", "struct", "tuple", "union")
OFFSET = re.compile(r"(?i)(?<![\"'\w])offset(?![\"'\w])")
# How EXPLAIN is to explain, in DuckDB's dialect.
HOW = re.compile(r"\(\s*(?:ANALYZE|FORMAT)\b[\w\s,]*\)", re.IGNORECASE)


def connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB of this process, in UTC as Spark's sessions are, that takes no variable of Python for a table and fetches no extension.

    Raises:
        NotReady: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise NotReady("duckdb is not installed: pip install 'lakelog[native]'.") from error
    made = duckdb.connect(":memory:")
    made.execute("SET TimeZone = 'UTC'")
    made.execute("SET python_enable_replacements = false")
    made.execute("SET autoinstall_known_extensions = false")
    return made


def ask(topics: Sequence[str], opened: Callable[[str], NativeTopic], query: str, at: At) -> Rows:
    """The rows of one query that knows the views of topics.

    SHOW and DESCRIBE know the views of every topic without a row of them, but those that they do not name and that cannot be read.

    Args:
        topics: all there are.
        opened: opens one.
        query: what DuckDB can answer; the views that it names are read.
        at: a version of silver or a time, for the views of the latest tables; topics that have no such version are left out.

    Raises:
        InvalidRequest: the query is wrong, or is another statement; nothing was run.
        NotFound: it names a table or view that is not there; the views are listed. Or none of the topics that it names has such a version
            (SNAPSHOT_NOT_FOUND).
        Damaged: it names a topic whose latest table is not as lakelog left it.
    """
    return views.with_computed(lambda also: _ask(topics, opened, query, at, also))


def _ask(topics: Sequence[str], opened: Callable[[str], NativeTopic], query: str, at: At, also: Set[str]) -> Rows:
    """As `ask`; ``also``: views whose names the query computes."""
    known = connection()
    _, word = begun(query)
    own = _of_duckdb(known) if word in TELLING else frozenset()
    existing: list[str] = []
    found = False
    # By view: why it is not there. What has no such version is left out.
    absent: dict[str, NotFound] = {}
    for name in topics:
        said = views.named(name, query, also)
        try:
            if said or word in TELLING:
                topic = opened(name)
                if said:
                    register(known, topic, at, said, empty=word in TELLING, behind=own.difference(said))
                    found = True
                if word in TELLING:
                    rest = [view for view in views.names(name) if view not in said]
                    # What the query does not name stops nothing.
                    with contextlib.suppress(NotFound, Damaged, InvalidConfig, NotReady):
                        register(known, topic, at, rest, empty=True, behind=own)
        except TopicNotFound as error:
            # A topic whose deletion was cut off is still listed.
            absent |= dict.fromkeys(said, error)
            continue
        except NotFound as error:
            if at is None and said:
                raise
            absent |= dict.fromkeys(said, error)
            continue
        except (Damaged, InvalidConfig, NotReady):
            if said:
                raise
            continue
        existing += views.names(name)
    lacking = next((error for error in absent.values() if not isinstance(error, TopicNotFound)), None)
    if lacking is not None and not found:
        raise lacking
    if own:
        known.execute("SET search_path = 'system.main,memory.main'")
    try:
        return asked(known, query, existing)
    except NotFound as error:
        raise absent.get(error.details.get("table", "").lower(), error) from error


def _of_duckdb(known: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The names of DuckDB's own views, with which it answers SHOW and DESCRIBE."""
    return frozenset(name for (name,) in known.execute("SELECT view_name FROM duckdb_views() WHERE internal").fetchall())


def register(
    known: duckdb.DuckDBPyConnection,
    topic: NativeTopic,
    at: At,
    names: Sequence[str],
    *,
    empty: bool = False,
    behind: Set[str] = frozenset(),
) -> None:
    """Make those of a topic's views known that are named; their rows are read now, and kept in this process' memory.

    Args:
        known: where.
        topic: the topic, opened just now.
        at: a version of silver or a time, for the views of the latest table.
        names: of views.
        empty: with their columns alone; no rows are read.
        behind: names of DuckDB's own views, which are to go before a topic's.

    Raises:
        Damaged: the latest table is not as lakelog left it.
        NotFound: it has no such version; none of the views is known then.
    """
    found = topic.views_of(names, at)
    for name, rows in [(name, (rows.limit(0) if empty else rows).toArrow()) for name, rows in found.items()]:
        if name in behind:
            known.from_arrow(rows).create(f"memory.main.{_quoted(name)}")
        else:
            # As a temporary view, which goes before all others.
            known.register(name, rows)


def asked(known: duckdb.DuckDBPyConnection, query: str, existing: Sequence[str]) -> Rows:
    """The rows of one query.

    Raises:
        InvalidRequest: it is wrong, or more than a query; nothing was run.
        NotFound: it names a table or view that is not there; the views are listed.
    """
    with door(existing, query):
        found = _answered(known, _only_asking(known, query))

    def read(ordered: Sequence[str], most: int | None) -> Iterator[pyarrow.RecordBatch]:
        rows = in_order(found, ordered)
        yield from (rows if most is None else rows.slice(0, most)).to_batches(max_chunksize=10_000)

    return Rows(struct([(field.name, kind_of(field.type)) for field in found.schema]), read)


def _only_asking(known: duckdb.DuckDBPyConnection, query: str) -> str:
    """A query as it may be run: DuckDB itself takes it, or what it explains (EXPLAIN (ANALYZE) runs that), for one that only reads.

    DuckDB allows a statement that writes as a common table expression, but at the top level alone: so the query is planned within another.

    Raises:
        InvalidRequest: it is another statement, or more than one.
    """
    import duckdb

    text, word = begun(query)
    how = ""
    if word == "EXPLAIN":
        text = without_comments_before(text[len(word) :])
        if found := HOW.match(text):
            how, text = found[0], text[found.end() :]
    statements = duckdb.extract_statements(text)
    if len(statements) != 1:
        raise refusal(f"{'No' if not statements else 'More than one'} statement is")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise refusal("The statement is")
    try:
        known.execute("EXPLAIN SELECT 1 FROM query(?)", [text])
    except duckdb.BinderException as error:
        if "must be at the top level" in str(error):
            raise refusal("A WITH that writes is") from error
        raise
    # What is run begins with what was looked at: whatever DuckDB takes for a comment, a statement behind it is not run in its place.
    return f"EXPLAIN {how} {text}" if word == "EXPLAIN" else text


def _answered(known: duckdb.DuckDBPyConnection, query: str) -> pyarrow.Table:
    """A query's rows. DuckDB works in another thread, so that a signal finds this one; then what it does is ended."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: _told(known.sql(query)).to_arrow_table())
        try:
            return waiting.result()
        except BaseException:
            known.interrupt()
            raise


def _told(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Rows with the values of types in `AS_TEXT` as DuckDB writes them, also within other values."""
    kinds = [_with_texts(kind) if NAMES_ONE.search(str(kind)) else "" for kind in rows.types]
    if not any(kinds):
        return rows
    shown = [f"#{place}{f'::{kind}' if kind else ''}" for place, kind in enumerate(kinds, start=1)]
    return rows.project(", ".join(f"{one} AS {_quoted(name)}" for one, name in zip(shown, rows.columns, strict=True)))


def _with_texts(kind: Any) -> str:
    """A type of DuckDB's as SQL writes it, with VARCHAR for each of `AS_TEXT` within it."""
    if kind.id not in NESTED:
        return "VARCHAR" if str(kind) in AS_TEXT else str(kind)
    inner = dict(kind.children)
    if kind.id == "struct" and "" in inner:
        # What row(…) made before DuckDB 2; SQL cannot write its type.
        return "VARCHAR"
    if kind.id in ("list", "array"):
        return f"{_with_texts(inner['child'])}[{inner.get('size', '')}]"
    if kind.id == "map":
        return f"MAP({_with_texts(inner['key'])}, {_with_texts(inner['value'])})"
    # A UNION has its tag among them, without a name; a TUPLE's have none.
    fields = [(f"{_quoted(name)} " if name else "") + _with_texts(one) for name, one in kind.children if name or kind.id != "union"]
    return f"{kind.id}({', '.join(fields)})"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _is_about_offset(query: str) -> bool:
    """Whether a query that cannot be parsed can, once the word offset in it is quoted."""
    import duckdb

    try:
        return len(duckdb.extract_statements(OFFSET.sub('"offset"', query))) == 1
    except duckdb.Error:
        return False


@contextlib.contextmanager
def door(existing: Sequence[str], query: str = "") -> Iterator[None]:
    """Turn what DuckDB says of a user's query into lakelog's errors."""
    import duckdb

    try:
        yield
    except LakelogError:
        raise
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.CatalogException as error:
        first = str(error).strip().splitlines()[0]
        if re.match(r"Catalog Error: Table with name", first):
            # DuckDB proposes tables of its own.
            raise views.unknown(re.split(r"[!.]* ?Did you mean", first)[0].rstrip("!.") + ".", existing) from error
        raise InvalidRequest(f"The query is wrong: {first}", name="INVALID_QUERY") from error
    except duckdb.Error as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        near = next((f" {line.strip()}." for line in lines[1:] if line.startswith("Candidate bindings")), "")
        if isinstance(error, duckdb.ParserException) and _is_about_offset(query):
            near = '. A column called offset needs quotes in DuckDB: "offset".'
        raise InvalidRequest(f"The query is wrong: {lines[0]}{near}", name="INVALID_QUERY") from error
