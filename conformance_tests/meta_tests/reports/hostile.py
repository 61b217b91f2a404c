"""Texts that break out of whatever is careless with them, for the tests of reports."""

from conformance_tests.reports.report import Report, Result, TargetReport

HOSTILE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "entities": "a & b &lt; &#x3c; ]]> --> <!--",
    "quotes": "\"' onmouseover='x' `",
    "lines": "one\ntwo\r\nthree\u2028four",
    "controls": "\x00\x07\x1b[31mred\x7f\x9b",
    "directions": "\u202egpj.exe\u2066",
    "surrogates": "\udcff\ud800",
    "noncharacters": "\ufffe\uffff",
    "markdown": "| a | b |\n\n# heading ![x](y) [l](javascript:z) ``` `` ~~~\n- item\n1. one *em* __strong__",
    "templates": "{{ 7 * 7 }} {% raw %} ${x} {# none #}",
    "paths": r"C:\new\table|\`code` \ ",
    "long": "x" * 100_000,
}

SHOWN = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "entities": "a & b &lt; &#x3c; ]]> --> <!--",
    "quotes": "\"' onmouseover='x' `",
    "lines": r"one\ntwo\r\nthree\u2028four",
    "controls": r"\x00\x07\x1b[31mred\x7f\x9b",
    "directions": r"\u202egpj.exe\u2066",
    "surrogates": r"\udcff\ud800",
    "noncharacters": r"\ufffe\uffff",
    "markdown": r"| a | b |\n\n# heading ![x](y) [l](javascript:z) ``` `` ~~~\n- item\n1. one *em* __strong__",
    "templates": "{{ 7 * 7 }} {% raw %} ${x} {# none #}",
    "paths": r"C:\new\table|\`code` \ ",
    "long": "x" * 300 + "… (100,000 characters)",
}
"""What a reader sees of each on one line, whatever the format."""


def report_saying(text: str) -> Report:
    """A report with the text in every place that a subject, a profile or an expected failure can reach."""

    def result(id: str, equation: str, outcome: str) -> Result:
        said = {"message": text, "repro": text} if outcome != "pass" else {}
        reason = {"reason": text, "link": text} if outcome.startswith("x") else {}
        return Result(id, equation, "test_attention::test_x", "trace", outcome, **said, **reason)

    judged = [
        result("ATT-1", "attention.projections", "pass"),
        result("ATT-3", "attention.scores", "fail"),
        result("ATT-6", "attention.weights", "xfail"),
        result("ATT-9", "attention.weights", "xpass"),
        result("MASK-2", "attention.mask", "unsupported"),
        result("MASK-3", "attention.mask", "blocked"),
        result("NORM-1", "norm.statistics", "error"),
    ]
    profile = {"name": text, "choices": {"layer": text, "norm": text, "num_layers": 2, "d_model": 30}}
    told = {"departs_at": "attention.scores", "notes": [text], "seconds": 1.5}
    first = TargetReport(text, "nonconformant", "trace", profile, judged, **told)
    return Report(7, [first, TargetReport(text, notes=[text, text])])
