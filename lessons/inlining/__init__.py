"""Replace a call by the callee's nodes.

A graph calls modules and functions by name. To inline one, call it again, and give it proxies of
the arguments that the node has: it then records its operations where the call stands. What it
returns takes the call's place.

    calls = the nodes to replace
    for each call:  record what the callee does, in front of the call
    for each call:  let its users use the result, and erase it

The tracer of lesson ``tracer`` can do the recording, once it is told to write into the graph that
exists, and not into a new one.
"""

from .inline import inline_all, inline_function, inline_module

__all__ = ["inline_all", "inline_function", "inline_module"]
