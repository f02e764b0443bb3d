"""Traces: files of real traffic and seeded synthetic workloads, as streams of Request."""

from scheduler.trace.formats import ReadOptions, Trace, TraceFormat
from scheduler.trace.registry import FORMATS, open_trace
from scheduler.trace.sessions import SessionPlan, Turn, open_loop, sessions_of
from scheduler.trace.summary import TraceSummary
from scheduler.trace.ticks import TickReport, find_tick, spread_ticks
from scheduler.trace.tokenizer import PieceTokenizer, Tokenizer, load_tokenizer
from scheduler.trace.workloads import Workload, chat, few_shot, unique
from scheduler.trace.writer import trace_lines, write_trace

__all__ = [
    "FORMATS",
    "PieceTokenizer",
    "ReadOptions",
    "SessionPlan",
    "TickReport",
    "Tokenizer",
    "Trace",
    "TraceFormat",
    "TraceSummary",
    "Turn",
    "Workload",
    "chat",
    "few_shot",
    "find_tick",
    "load_tokenizer",
    "open_loop",
    "open_trace",
    "sessions_of",
    "spread_ticks",
    "trace_lines",
    "unique",
    "write_trace",
]
