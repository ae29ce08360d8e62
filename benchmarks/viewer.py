"""P11: a long session in the viewer, in a real browser, beside a page that puts each event's text into a plain element.

The newest page of events, all of them, and what a reader would feel: whether something moves that one looks at.
"""

import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from playwright.async_api import Browser, Page, async_playwright

import ash_server
from ash_server.db.engine import connect
from ash_server.db.events import append_events
from ash_server.ingest import Message, write
from benchmarks.database import new_session, settle
from benchmarks.following import serving
from benchmarks.table import Row
