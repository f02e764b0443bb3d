"""Traces: files of real traffic and seeded synthetic workloads, as streams of Request."""

from scheduler.trace.chat_sessions import agents, chat
from scheduler.trace.chat_template import ChatTemplate
from scheduler.trace.formats import ReadOptions, Trace, TraceFormat
from scheduler.trace.registry import FORMATS, open_trace
from scheduler.trace.sessions import SessionPlan, Turn, open_loop, sessions_of
from scheduler.trace.sharegpt_shapes import sharegpt_json, sharegpt_like
from scheduler.trace.single_prompts import few_shot, unique
from scheduler.trace.summary import TraceSummary
from scheduler.trace.thought_trees import tree
from scheduler.trace.ticks import TickReport, find_tick, spread_ticks
from scheduler.trace.tokenizer import PieceTokenizer, Tokenizer, load_tokenizer
from scheduler.trace.workload import Workload
from scheduler.trace.workloads import WORKLOADS, make_workload
from scheduler.trace.writer import trace_lines, write_trace

__all__ = [
    "FORMATS",
    "WORKLOADS",
    "ChatTemplate",
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
    "agents",
    "chat",
    "few_shot",
    "find_tick",
    "load_tokenizer",
    "make_workload",
    "open_loop",
    "open_trace",
    "sessions_of",
    "sharegpt_json",
    "sharegpt_like",
    "spread_ticks",
    "trace_lines",
    "tree",
    "unique",
    "write_trace",
]
