"""Write flights.csv: a made-up timetable between real places, the same in every run.

Every place on the mainland has flights to its nearest neighbours, hubs to each other. Greenland's towns have
flights only among themselves, and there is no flight to Madeira.
"""

from __future__ import annotations

import csv
import random
from itertools import permutations
from math import asin, cos, radians, sin, sqrt
from pathlib import Path

SEED = 7
NEIGHBOURS = 5
HUBS = ("AMS", "CDG", "FRA", "IST", "LHR", "MAD", "VIE")
AIRLINES = ("Albatross", "Bluebird", "Condorino", "Drift Air")
PLACES = {  # code: city, degrees north, degrees east
    "AMS": ("Amsterdam", 52.3, 4.8),
    "ARN": ("Stockholm", 59.7, 17.9),
    "ATH": ("Athens", 37.9, 23.9),
    "BCN": ("Barcelona", 41.3, 2.1),
    "BEG": ("Belgrade", 44.8, 20.3),
    "BER": ("Berlin", 52.4, 13.5),
    "BRU": ("Brussels", 50.9, 4.5),
    "BUD": ("Budapest", 47.4, 19.3),
    "CDG": ("Paris", 49.0, 2.5),
    "CPH": ("Copenhagen", 55.6, 12.7),
    "DUB": ("Dublin", 53.4, -6.3),
    "FAO": ("Faro", 37.0, -8.0),
    "FCO": ("Rome", 41.8, 12.3),
    "FNC": ("Madeira", 32.7, -16.8),
    "FRA": ("Frankfurt", 50.0, 8.6),
    "GOH": ("Nuuk", 64.2, -51.7),
    "GVA": ("Geneva", 46.2, 6.1),
    "HEL": ("Helsinki", 60.3, 25.0),
    "IST": ("Istanbul", 41.3, 28.7),
    "JAV": ("Ilulissat", 69.2, -51.1),
    "JSU": ("Maniitsoq", 65.4, -52.9),
    "KEF": ("Reykjavik", 64.0, -22.6),
    "KRK": ("Krakow", 50.1, 19.8),
    "LHR": ("London", 51.5, -0.5),
    "LIS": ("Lisbon", 38.8, -9.1),
    "LYR": ("Svalbard", 78.2, 15.5),
    "MAD": ("Madrid", 40.5, -3.6),
    "MLA": ("Malta", 35.9, 14.5),
    "OSL": ("Oslo", 60.2, 11.1),
    "OTP": ("Bucharest", 44.6, 26.1),
    "PRG": ("Prague", 50.1, 14.3),
    "RIX": ("Riga", 56.9, 24.0),
    "SKG": ("Thessaloniki", 40.5, 23.0),
    "SOF": ("Sofia", 42.7, 23.4),
    "TFS": ("Tenerife", 28.0, -16.6),
    "TLL": ("Tallinn", 59.4, 24.8),
    "TOS": ("Tromso", 69.7, 18.9),
    "VIE": ("Vienna", 48.1, 16.6),
    "WAW": ("Warsaw", 52.2, 21.0),
    "ZRH": ("Zurich", 47.5, 8.6),
}
GREENLAND = ("GOH", "JAV", "JSU")


def kilometres(start: str, end: str) -> int:
    """Return the length of the great circle between two places, in whole kilometres."""
    _, north1, east1 = PLACES[start]
    _, north2, east2 = PLACES[end]
    latitude = sin(radians(north2 - north1) / 2) ** 2
    longitude = sin(radians(east2 - east1) / 2) ** 2
    return round(2 * 6371 * asin(sqrt(latitude + cos(radians(north1)) * cos(radians(north2)) * longitude)))


def connections() -> list[tuple[str, str]]:
    """Return the pairs of places with a flight."""
    pairs = set(permutations(HUBS, 2)) | set(permutations(GREENLAND, 2))
    mainland = [place for place in PLACES if place not in GREENLAND]
    for place in mainland:
        others = sorted((other for other in mainland if other != place), key=lambda o: kilometres(place, o))
        pairs |= {pair for other in others[:NEIGHBOURS] for pair in ((place, other), (other, place))}
    return sorted(pair for pair in pairs if pair[1] != "FNC")


def main() -> None:
    """Write flights.csv to the folder of this script."""
    choice = random.Random(SEED)
    with (Path(__file__).parent / "flights.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("from", "to", "airline", "km", "minutes"))
        for start, end in connections():
            length = kilometres(start, end)
            for airline in sorted(choice.sample(AIRLINES, choice.choice((1, 1, 2)))):
                minutes = 30 + round(length / 13) + choice.randrange(0, 20, 5)
                writer.writerow((PLACES[start][0], PLACES[end][0], airline, length, minutes))


if __name__ == "__main__":
    main()
