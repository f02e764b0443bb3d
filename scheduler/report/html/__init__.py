"""The HTML report: figures drawn as SVG from plain data, and the page that holds them.

One file without a script and without a request to anywhere; the same input gives the same bytes.
"""

__all__ = ()
