"""Fields of delimited text and terms of plain N-Triples, found without copying them; values in them, read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.compiled import (
    bytes_at,
    count_ones,
    doubles_at,
    high_bytes,
    inlined,
    int32_at,
    int64_at,
    kernel,
    load64,
    matching_bytes,
    subroutine,
    trailing_zeros,
)
from tidelog.data.arrow import VIEWS, WIDE_OFFSETS, Array, all_match, places
from tidelog.logic.values import Kind

# ---- The fields of plain delimited text, found 64 bytes at a time, without copying them.
#
# Only the plainest text is read here: no quotes, no carriage returns, all lines of the same number of fields.
# The fields become Arrow views into the block, ready for the dictionary. Anything else is left to the careful
# ways of `io.delimited`.

Text = bytes | bytearray | memoryview

WIDTH = 64  # bytes that are looked at together
QUOTE, LINE_FEED, RETURN = b'"\n\r'
MOST_BYTES = 1 << 31  # a view's offset has 32 bits
IN_VIEW = 12  # texts up to this length stand in the view itself


class Survey(NamedTuple):
    """How many line feeds a text has, and whether it has quotes, carriage returns, or is all ASCII."""

    line_feeds: int
    has_quotes: bool
    has_returns: bool
    is_ascii: bool


@kernel("i64, i64 -> i64, bool, bool, bool")
def survey_bytes(address: Any, length: Any) -> Any:
    """The fields of a `Survey` of the bytes at an address."""
    feeds = np.int64(0)
    quotes = np.uint64(0)
    returns = np.uint64(0)
    high = np.uint64(0)
    whole = length - length % WIDTH
    for position in range(0, whole, WIDTH):
        feeds += np.int64(count_ones(matching_bytes(address + position, LINE_FEED)))
        quotes |= matching_bytes(address + position, QUOTE)
        returns |= matching_bytes(address + position, RETURN)
        high |= high_bytes(address + position)
    text = bytes_at(address, length)
    for position in range(whole, length):
        feeds += text[position] == LINE_FEED
        quotes |= np.uint64(text[position] == QUOTE)
        returns |= np.uint64(text[position] == RETURN)
        high |= np.uint64(text[position] >= 128)
    return feeds, quotes != 0, returns != 0, high == 0


def survey(text: Text) -> Survey:
    """What there is in a text, found in one pass."""
    return Survey(*survey_bytes(pa.py_buffer(text).address, len(text)))


@inlined
def first_bytes(word: Any, count: Any) -> Any:
    """The first `count` bytes of the word, fewer than eight, the others zero."""
    return word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))


@inlined
def load_up_to(address: Any, count: Any) -> Any:
    """Up to eight bytes as a word, the others zero; nothing behind them is read."""
    word = np.uint64(0)
    text = bytes_at(address, count)
    for index in range(count):
        word |= np.uint64(text[index]) << np.uint64(8 * index)
    return word


@inlined
def write_view(views: Any, place: Any, address: Any, start: Any, end: Any, length: Any) -> None:
    """Write the view of the field from `start` to `end` of the text of this length at an address.

    It begins with the field's own length. A short field follows; of a long one the first four bytes, the
    number of its buffer, 0, and its place.
    """
    size = end - start
    if size > IN_VIEW:
        first = load64(address + start)
        second = np.uint64(start) << np.uint64(32)
    elif start + 16 <= length:
        first = load64(address + start)
        second = load64(address + start + 4)
        if size < 4:
            first = first_bytes(first, size)
        if size < IN_VIEW:
            second = first_bytes(second, max(size - 4, 0))
    else:
        first = load_up_to(address + start, min(size, 4))
        second = load_up_to(address + start + 4, max(size - 4, 0))
    views[2 * place] = np.int64(np.uint64(size) | (first << np.uint64(32)))
    views[2 * place + 1] = np.int64(second)


@kernel("i64, i64, i64, i64, i64, bool, i64[:], i64, i64[:], i64[:], i64[:] -> i64, i64")
def split_fields(
    address: Any,
    length: Any,
    delimiter: Any,
    columns: Any,
    lines: Any,
    has_returns: Any,
    wanted: Any,
    views: Any,
    starts: Any,
    kept: Any,
    wrong: Any,
) -> Any:
    """Write a view of every wanted field; returns how many rows there are, and lines of another width.

    Returns -1 for rows if a carriage return does not stand before a line feed. `wanted` holds, for each
    column, which block of `views` it goes to, or -1. `starts` is where each line begins, the first at 0;
    `kept` the line of each row; `wrong` the lines of another width. Empty lines are neither.
    """
    blocks = 0
    for block in wanted:
        blocks += block >= 0
    out = int64_at(views, 2 * lines * blocks)
    last = np.zeros(WIDTH, np.uint8)  # the end of the text, so that nothing behind it is read
    whole = length - length % WIDTH
    text = bytes_at(address, length)
    for index in range(length - whole):
        last[index] = text[whole + index]
    start, column, row, line = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    wrong_lines, returns = np.int64(0), np.int64(0)
    starts[0] = 0
    for position in range(0, length + 1, WIDTH):
        here = address + position if position < whole else last.ctypes.data
        ends = matching_bytes(here, LINE_FEED)
        found = ends | matching_bytes(here, delimiter)
        if has_returns:
            returns += np.int64(count_ones(matching_bytes(here, RETURN)))
        if position >= whole:  # the text ends like a line, which is no row if it is empty
            bit = np.uint64(1) << np.uint64(length - whole)
            ends |= bit
            found = (found & (bit - np.uint64(1))) | bit
        while found != 0:
            place = np.int64(trailing_zeros(found))
            found &= found - np.uint64(1)
            end = position + place
            stop = end
            is_line = (ends >> np.uint64(place)) & np.uint64(1) != 0
            if has_returns and is_line and start < end < length and text[end - 1] == RETURN:
                stop -= 1
                returns -= 1
            if column < columns and wanted[column] >= 0 and row < lines:
                write_view(out, wanted[column] * lines + row, address, start, stop, length)
            start = end + 1
            if not is_line:
                column += 1
                continue
            if column == columns - 1 and (column > 0 or starts[line] < stop):
                kept[row] = line
                row += 1
            elif column > 0 or starts[line] < stop:
                wrong[wrong_lines] = line
                wrong_lines += 1
            line += 1
            starts[line] = start
            column = np.int64(0)
    return row if returns == 0 else np.int64(-1), wrong_lines


class Fields(NamedTuple):
    """The wanted columns of a block, and where its rows stand: lines are counted from 0."""

    columns: list[Any]
    rows: int
    starts: npt.NDArray[np.int64]  # of lines
    kept: npt.NDArray[np.int64]  # the line of each row
    wrong: npt.NDArray[np.int64]  # lines of another number of fields


def fields_of_lines(
    block: Text, found: Survey, delimiter: str, columns: int, wanted: Sequence[int]
) -> Fields | None:
    """The wanted columns of a block without quotes, as Arrow views; None if it is not plain."""
    if len(block) >= MOST_BYTES or not (found.is_ascii or is_utf8(block)) or not delimiter.isascii():
        return None
    lines = found.line_feeds + 1
    places = np.full(columns, -1, np.int64)
    places[list(wanted)] = np.arange(len(wanted))
    views = np.empty(2 * lines * len(wanted), np.int64)
    starts, kept, wrong = np.empty(lines + 1, np.int64), np.empty(lines, np.int64), np.empty(lines, np.int64)
    buffer = pa.py_buffer(block)
    rows, wrong_lines = split_fields(
        buffer.address,
        len(block),
        ord(delimiter),
        columns,
        lines,
        found.has_returns,
        places,
        views.ctypes.data,
        starts,
        kept,
        wrong,
    )
    if rows < 0:
        return None
    buffers = [pa.py_buffer(views).slice(16 * lines * place, 16 * rows) for place in range(len(wanted))]
    arrays = [pa.Array.from_buffers(pa.string_view(), rows, [None, part, buffer]) for part in buffers]
    return Fields(arrays, rows, starts, kept[:rows], wrong[:wrong_lines])


def is_utf8(block: Text) -> bool:
    """Whether a block is text at all."""
    try:
        str(block, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


# ---- forms of RDF terms
#
# Those of usual terms are for Arrow's kernels only.

_IRI_CHARACTER = r'[^\x00-\x20<>"{}|^`\\]'
_ESCAPE = (
    r'\\[tbnrf"\x27\\]'
    r"|\\u[0-9A-CEFa-cef][0-9A-Fa-f]{3}|\\u[dD][0-7][0-9A-Fa-f]{2}"  # no halves of surrogate pairs
    r"|\\U000[1-9A-Fa-f][0-9A-Fa-f]{4}|\\U0010[0-9A-Fa-f]{4}"
)
# What labels of blank nodes are made of, by the grammar of N-Triples.
_LETTER = (
    "A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_IN_LABEL = _LETTER + "0-9\u00b7\u0300-\u036f\u203f-\u2040-"
NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
IRI = f"<{_IRI_CHARACTER}*>"
BLANK = f"_:[0-9{_LETTER}](?:[.{_IN_LABEL}]*[{_IN_LABEL}])?"
LITERAL = rf'"(?:[^"\\\n\r]|{_ESCAPE})*"(?:@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*|\^\^{IRI})?'
NODE = f"(?:{IRI}|{BLANK})"
OBJECT = f"(?:{IRI}|{BLANK}|{LITERAL})"
EXACT = f"(?:{IRI}|{BLANK}|{LITERAL}|{NAME}|-?[0-9]+)"
# Terms that every format of RDF holds and every parser reads as they are; there are others.
_USUAL_TEXT = r'"(?:[ !#-\[\]-~\x{a0}-\x{d7ff}]|\\[nrt"\\])*"'
_USUAL_IRI = (
    r"<(?:https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::[0-9]+)?/|(?:urn|tag):[a-z]+:)"
    r"(?:[A-Za-z0-9_~!$&'()*+,;=@:/.\x{c0}-\x{1fff}-]|%[0-9A-Fa-f]{2})*"
)
_USUAL_END = "(?:#[A-Za-z_][A-Za-z0-9_-]*)?>"
USUAL = (
    f"^(?:{_USUAL_IRI}{_USUAL_END}|_:[A-Za-z][A-Za-z0-9_]*"
    rf"|{_USUAL_TEXT}(?:@[a-z][a-z](?:-[a-z][a-z])?|\^\^{_USUAL_IRI}{_USUAL_END})?)$"
)
USUAL_PREDICATE = f"^{_USUAL_IRI}(?:/|#)[A-Za-z_][A-Za-z0-9_-]*>$"


# ---- The terms of plain N-Triples, found in one pass and without copying them.
#
# Lines have one space between terms. IRIs and strings that are plainly written are checked byte by byte;
# blank nodes, and literals with escapes, languages or datatypes, by the patterns of terms. The terms become
# Arrow views into the block, ready for the dictionary. Any other block is left to `io.rdf`.

TERMS = 3
SPACE, DOT, LESS, GREATER, UNDERSCORE = b" .<>_"
IN_IRI, IN_TEXT = 1, 2  # where a byte may stand for itself


def byte_uses() -> npt.NDArray[np.uint8]:
    """Of each byte whether it may stand for itself in an IRI, and in a string."""
    uses = np.full(256, IN_IRI | IN_TEXT, np.uint8)
    uses[:0x21] = IN_TEXT
    uses[list(b'<>"{}|^`\\')] = IN_TEXT
    uses[list(b'"\\\n\r')] = 0
    return uses


USES = byte_uses()


@kernel("i64, i64, i64, u8[:], i64, i32[:], i32[:] -> i64, i64")
def split_triples(
    address: Any, length: Any, rows: Any, uses: Any, views: Any, subjects: Any, objects: Any
) -> Any:
    """Write a view of every term; returns how many subjects and objects are left to be checked, or -1.

    Their bounds are written to `subjects` and `objects`. -1 is for a text that does not consist of lines of
    three terms. It ends with a line feed, at which every loop stops.
    """
    text = bytes_at(address, length)
    out = int64_at(views, 2 * rows * TERMS)
    unchecked_subjects, unchecked_objects = 0, 0
    position = np.int64(0)
    for row in range(rows):
        for column in range(TERMS):
            start = position
            is_plain = False
            if text[start] == LESS:
                position += 1
                while uses[text[position]] & IN_IRI:
                    position += 1
                if text[position] != GREATER:
                    return -1, -1
                is_plain = True
            elif text[start] == QUOTE and column == TERMS - 1:
                position += 1
                while uses[text[position]] & IN_TEXT:
                    position += 1
                is_plain = text[position] == QUOTE and text[position + 1] == SPACE
            if is_plain:
                position += 1
            elif column == 0:
                while text[position] != SPACE and text[position] != LINE_FEED:
                    position += 1
                subjects[2 * unchecked_subjects] = start
                subjects[2 * unchecked_subjects + 1] = position
                unchecked_subjects += 1
            elif column == TERMS - 1:
                while text[position] != LINE_FEED:
                    position += 1
                position = max(position - 2, start)
                objects[2 * unchecked_objects] = start
                objects[2 * unchecked_objects + 1] = position
                unchecked_objects += 1
            if text[position] != SPACE:
                return -1, -1
            write_view(out, column * rows + row, address, start, position, length)
            position += 1
        if text[position] != DOT or text[position + 1] != LINE_FEED:
            return -1, -1
        position += 2
    return unchecked_subjects, unchecked_objects


def term_views(block: bytes, found: Survey) -> tuple[Array, ...] | None:
    """Subjects, predicates and objects of a block that ends with a line feed; None if it is not plain."""
    rows = found.line_feeds
    if len(block) >= MOST_BYTES or found.has_returns or not (found.is_ascii or is_utf8(block)):
        return None
    views = np.empty(2 * rows * TERMS, np.int64)
    subjects, objects = np.zeros(2 * rows + 1, np.int32), np.zeros(2 * rows + 1, np.int32)
    buffer = pa.py_buffer(block)
    unchecked = split_triples(buffer.address, len(block), rows, USES, views.ctypes.data, subjects, objects)
    if not all(
        count >= 0 and _are_terms(bounds, count, buffer, form)
        for count, bounds, form in zip(unchecked, (subjects, objects), (NODE, OBJECT), strict=True)
    ):
        return None
    kept, size = pa.py_buffer(views), 16 * rows
    return tuple(
        pa.Array.from_buffers(pa.string_view(), rows, [None, kept.slice(place * size, size), buffer])
        for place in range(TERMS)
    )


def _are_terms(bounds: npt.NDArray[np.int32], count: int, block: pa.Buffer, form: str) -> bool:
    """Whether the texts between bounds, each with its end after its beginning, are terms of a form."""
    if not count:
        return True
    bounds[2 * count] = bounds[2 * count - 1]
    between = pa.StringArray.from_buffers(2 * count, pa.py_buffer(bounds), block)
    return all_match(between.take(places(np.arange(0, 2 * count, 2))), f"^{form}$")


# ---- Values of texts of one type, read in place.
#
# What is written plainly is read by a kernel, exactly as `logic.conversions.read_typed` reads it. All other
# texts are listed, whether they are values or not: the definition says which.

NO_TIME_ZONE = 1 << 20  # `extra` of a dateTime without a time zone
DIGITS = 18  # of numbers, so that none exceeds 64 bits
EXACT_WHOLE = 1 << 53  # doubles hold all integers up to here
EXACT_POWER = 22  # and the powers of ten up to this one
LONGEST_DOUBLE, SAFE_POWER = 40, 240  # what is neither infinite nor subnormal
BOOLEAN, INTEGER, DECIMAL, DOUBLE, DATE, DATETIME, IRI_KIND = (
    int(kind)
    for kind in (
        Kind.BOOLEAN,
        Kind.INTEGER,
        Kind.DECIMAL,
        Kind.DOUBLE,
        Kind.DATE,
        Kind.DATETIME,
        Kind.IRI,
    )
)
ZERO, NINE, PLUS, MINUS, POINT, COLON = b"09+-.:"
LETTER_E, LETTER_T, LETTER_Z = b"eTZ"
LOWER_CASE = 32  # the bit that makes an ASCII letter lower case
MINUTE, DAY = 60_000_000, 86_400_000_000  # in microseconds
MOST_OFFSET = 14 * 60
WORD_TRUE, WORD_FALSE = int.from_bytes(b"true", "big"), int.from_bytes(b"false", "big")


@inlined
def text_at(texts: Any, form: Any, data: Any, row: Any, rows: Any) -> Any:
    """The address and length of a text in an Arrow column, given by its offsets or its views."""
    if form == VIEWS:
        view = int32_at(texts, 4 * rows)
        length = np.int64(view[4 * row])
        # A short text stands in its view, a longer one in the data.
        if length <= IN_VIEW:
            return texts + 16 * row + 4, length
        return data + np.int64(view[4 * row + 3]), length
    if form == WIDE_OFFSETS:
        long = int64_at(texts, rows + 1)
        return data + long[row], long[row + 1] - long[row]
    short = int32_at(texts, rows + 1)
    return data + np.int64(short[row]), np.int64(short[row + 1]) - np.int64(short[row])


@subroutine
def parse_number(address: Any, length: Any, most_whole: Any, most_scale: Any) -> Any:
    """Whether a text is plainly a decimal number; its digits without zeros at either end, and their scale.

    Integers are the numbers without a point, which is returned too. A number has at most `DIGITS` digits, and
    not more than those before and behind the point.
    """
    text = bytes_at(address, length)
    position = np.int64(text[0] == PLUS or text[0] == MINUS) if length > 0 else np.int64(0)
    number, whole, scale, zeros, digits = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    has_point = False
    while position < length:
        digit = np.int64(text[position]) - ZERO
        position += 1
        if digit < 0 or digit > 9:
            if digit != POINT - ZERO or has_point:
                return False, number, scale, has_point
            has_point = True
            continue
        digits += 1
        if not has_point:
            whole += number > 0 or digit > 0
            if whole > DIGITS:
                return False, number, scale, has_point
            number = number * 10 + digit
        elif digit == 0:
            zeros += 1  # which count if another digit follows
        else:
            if whole + scale + zeros >= DIGITS:
                return False, number, scale, has_point
            for _ in range(zeros):
                number *= 10
            number = number * 10 + digit
            scale += zeros + 1
            zeros = np.int64(0)
    is_read = digits > 0 and whole <= most_whole and scale <= most_scale
    return is_read, -number if length > 0 and text[0] == MINUS else number, scale, has_point


@subroutine
def is_mantissa(address: Any, length: Any) -> Any:
    """Whether a text that is not long has only digits, with at most one point, behind a minus or nothing."""
    text = bytes_at(address, length)
    start = np.int64(length > 0 and text[0] == MINUS)
    points = np.int64(0)
    for place in range(start, length):
        is_point = text[place] == POINT
        points += is_point
        if not is_point and (text[place] < ZERO or text[place] > NINE):
            return False
    return points <= 1 and points < length - start and length <= LONGEST_DOUBLE


@subroutine
def parse_double(address: Any, length: Any) -> Any:
    """Whether a text is plainly a double whose nearest one is known; that double; whether it has the form.

    Up to 2**53 and the power 22 both are exact, and one rounding gives the nearest double.
    """
    text = bytes_at(address, length)
    end = np.int64(0)
    while end < length and (text[end] | LOWER_CASE) != LETTER_E:
        end += 1
    power = np.int64(0)
    if end < length:
        place = end + 1
        is_negative = place < length and text[place] == MINUS
        place += place < length and (text[place] == PLUS or text[place] == MINUS)
        if place == length or length - place > 3:
            return False, 0.0, False
        for index in range(place, length):
            digit = np.int64(text[index]) - ZERO
            if digit < 0 or digit > 9:
                return False, 0.0, False
            power = power * 10 + digit
        power = -power if is_negative else power
    is_read, number, scale, _ = parse_number(address, end, DIGITS, DIGITS)
    shift = power - scale
    if not is_read or abs(number) > EXACT_WHOLE or shift < -EXACT_POWER or shift > EXACT_POWER:
        return False, 0.0, -SAFE_POWER < power < SAFE_POWER and is_mantissa(address, end)
    factor = 1.0
    for _ in range(abs(shift)):
        factor *= 10.0
    double = np.float64(number)
    return True, (double * factor if shift > 0 else double / factor), True


@inlined
def digits_at(text: Any, place: Any, count: Any) -> Any:
    """The number that so many digits write, -1 if there is anything else among them."""
    number = np.int64(0)
    is_number = True
    for index in range(place, place + count):
        digit = np.int64(text[index]) - ZERO
        is_number &= 0 <= digit <= 9  # type: ignore[assignment]
        number = number * 10 + digit
    return number if is_number else np.int64(-1)


@subroutine
def parse_date(address: Any, length: Any) -> Any:
    """Whether a text begins with a date of four digits of the year; the days since 1970."""
    text = bytes_at(address, length)
    if length < 10 or text[4] != MINUS or text[7] != MINUS:
        return False, np.int64(0)
    year, month, day = digits_at(text, 0, 4), digits_at(text, 5, 2), digits_at(text, 8, 2)
    if year < 0 or month < 1 or month > 12 or day < 1:
        return False, np.int64(0)
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    most = 28 + is_leap if month == 2 else 30 + (month + (month >> 3)) % 2
    if day > most:
        return False, np.int64(0)
    # Years from March, so that the day of a leap year is the last.
    start = year - (month <= 2)
    march = month - 3 if month > 2 else month + 9
    leaps = start // 4 - start // 100 + start // 400
    return True, 365 * start + leaps + (153 * march + 2) // 5 + day - 1 - 719_468


@subroutine
def parse_date_time(address: Any, length: Any) -> Any:
    """Whether a text is plainly a dateTime; its microseconds in UTC and its minutes east of UTC."""
    text = bytes_at(address, length)
    is_read, days = parse_date(address, length)
    if not is_read or length < 19 or text[10] != LETTER_T or text[13] != COLON or text[16] != COLON:
        return False, np.int64(0), np.int64(0)
    hour, minute, second = digits_at(text, 11, 2), digits_at(text, 14, 2), digits_at(text, 17, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return False, np.int64(0), np.int64(0)
    place = np.int64(19)
    fraction, unit = np.int64(0), np.int64(1_000_000)
    if place < length and text[place] == POINT:
        place += 1
        while place < length and unit > 1 and ZERO <= text[place] <= NINE:
            unit //= 10
            fraction += (np.int64(text[place]) - ZERO) * unit
            place += 1
        if unit == 1_000_000:
            return False, np.int64(0), np.int64(0)
    offset = np.int64(NO_TIME_ZONE)
    if place + 1 == length and text[place] == LETTER_Z:
        offset = np.int64(0)
    elif place + 6 == length and (text[place] == PLUS or text[place] == MINUS) and text[place + 3] == COLON:
        hours, minutes = digits_at(text, place + 1, 2), digits_at(text, place + 4, 2)
        if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > MOST_OFFSET:
            return False, np.int64(0), np.int64(0)
        offset = hours * 60 + minutes
        offset = -offset if text[place] == MINUS else offset
    elif place != length:
        return False, np.int64(0), np.int64(0)
    time = days * DAY + (hour * 60 + minute) * MINUTE + second * 1_000_000 + fraction
    return True, time - (np.int64(0) if offset == NO_TIME_ZONE else offset * MINUTE), offset


@subroutine
def parse_boolean(address: Any, length: Any) -> Any:
    """Whether a text is a Boolean in letters of either case, and whether it is true."""
    text = bytes_at(address, length)
    if length == 1:
        return text[0] == ZERO or text[0] == ZERO + 1, np.int64(text[0] == ZERO + 1)
    word = np.int64(0)
    if length == 4 or length == 5:
        for place in range(length):
            word = word << 8 | np.int64(text[place] | LOWER_CASE)
    return word in (WORD_TRUE, WORD_FALSE), np.int64(word == WORD_TRUE)


@subroutine
def is_plain_iri(address: Any, length: Any, uses: Any) -> Any:
    """Whether a text is an IRI that needs no reading."""
    text = bytes_at(address, length)
    if length == 0 or (length > 1 and text[0] == UNDERSCORE and text[1] == COLON):
        return False
    is_plain = True
    for place in range(length):
        is_plain &= uses[text[place]] & IN_IRI != 0
    return is_plain


@kernel("i64, i64, i64, i64, i64, i64, i64, u8[:], i64[:], i32[:], i64[:] -> i64")
def parse_texts(
    texts: Any,
    form: Any,
    data: Any,
    rows: Any,
    kind: Any,
    most_whole: Any,
    most_scale: Any,
    uses: Any,
    values: Any,
    extras: Any,
    listed: Any,
) -> Any:
    """Write payload and extra of each text of an Arrow column; returns how many rows are listed instead.

    The extra of a listed double is 1 if it has the form of one, and -1 otherwise.
    """
    count = np.int64(0)
    doubles = doubles_at(values.ctypes.data, rows)
    for row in range(rows):
        address, length = text_at(texts, form, data, row, rows)
        if kind != IRI_KIND:
            address, length = without_spaces(address, length)
        is_read, value, extra = False, np.int64(0), np.int64(0)
        if kind == INTEGER:
            is_read, value, _, has_point = parse_number(address, length, most_whole, most_scale)
            is_read &= not has_point
        elif kind == DECIMAL:
            is_read, value, extra, _ = parse_number(address, length, most_whole, most_scale)
        elif kind == DATE:
            is_read, value = parse_date(address, length)
            is_read &= length == 10
        elif kind == DATETIME:
            is_read, value, extra = parse_date_time(address, length)
            is_read &= most_scale == 0 or extra == NO_TIME_ZONE
        elif kind == BOOLEAN:
            is_read, value = parse_boolean(address, length)
        elif kind == IRI_KIND:
            is_read = is_plain_iri(address, length, uses)
        else:
            is_read, double, has_form = parse_double(address, length)
            doubles[row] = double + 0.0
            extra = np.int64(0) if is_read else np.int64(1) if has_form else np.int64(-1)
        if kind != DOUBLE:
            values[row] = value
        extras[row] = extra
        if not is_read:
            listed[count] = row
            count += 1
    return count


@inlined
def without_spaces(address: Any, length: Any) -> Any:
    """A text without spaces at its ends."""
    text = bytes_at(address, length)
    while length > 0 and text[length - 1] == SPACE:
        length -= 1
    start = np.int64(0)
    while start < length and text[start] == SPACE:
        start += 1
    return address + start, length - start
