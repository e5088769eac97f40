#!/usr/bin/env python3
"""Reads ctest's JUnit files and prints why tests were skipped and one closing line: N passed, N failed, N skipped.

usage: summary.py CTEST_STATUS JUNIT...

Exit status 1 where a test failed, where ctest itself failed, where no test ran, and, with CI=true, where one was skipped: a
check that did not run has shown nothing. A test skips with exit status 77 and a line `skipped: REASON`.
"""
import os
import sys
import xml.etree.ElementTree as xml


def reason(case):
    output = case.findtext("system-out") or ""
    for line in output.splitlines():
        if line.strip().startswith("skipped:"):
            return line.strip()
    return "skipped: no reason given"


def main():
    ctest_status = int(sys.argv[1])
    cases = [case for junit in sys.argv[2:] for case in xml.parse(junit).getroot().findall("testcase")]
    skipped = [c for c in cases if c.find("skipped") is not None or c.get("status") == "notrun"]
    failed = [c for c in cases if c.get("status") == "fail" or c.find("failure") is not None]
    passed = len(cases) - len(skipped) - len(failed)
    for case in skipped:
        print(f"{case.get('name')}: {reason(case)}")
    strict = os.environ.get("CI") == "true"
    if strict and skipped:
        print("CI=true: a skipped test counts as a failure of the run")
    if ctest_status != 0 and not failed:
        print(f"ctest ended with status {ctest_status}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    ok = not failed and ctest_status == 0 and passed > 0 and not (strict and skipped)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
