#!/usr/bin/env python3
"""Prints "PASSED FAILED": the test cases of one bazel test run, counted from its build events and test logs.

Usage: count_tests.py EVENTS.json
"""
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def count_cases(path):
    """Returns (passed, failed) for one test.xml."""
    passed = failed = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.get("status") != "notrun" and case.find("skipped") is None:
            passed += 1
    return passed, failed


def main():
    passed = failed = 0
    with open(sys.argv[1], encoding="utf-8") as events:
        for line in events:
            result = json.loads(line).get("testResult")
            if result is None:
                continue
            ok = result.get("status") == "PASSED"
            counts = (0, 0)
            for output in result.get("testActionOutput", []):
                if output.get("name") == "test.xml":
                    path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                    try:
                        counts = count_cases(path)
                    except (OSError, ElementTree.ParseError):
                        counts = (0, 0)
            # A target that failed without naming a case (crash, timeout) counts as one failure; one that passed counts
            # as at least one pass.
            if ok:
                passed += max(1, counts[0])
            else:
                passed += counts[0]
                failed += max(1, counts[1])
    print(passed, failed)


if __name__ == "__main__":
    main()
