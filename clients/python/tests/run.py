"""Runs all tests and ends with the line that hack/test.sh counts."""

import sys
import unittest

if __name__ == "__main__":
    suite = unittest.defaultTestLoader.discover(".")
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    # A subtest that failed is named beside its test: count tests, not subtests.
    wrong = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    for name in sorted(wrong):
        print(f"FAIL {name}")
    for test, reason in result.skipped:
        print(f"SKIP {test.id()}: {reason}")
    passed = result.testsRun - len(wrong) - len(result.skipped)
    print(f"{passed} passed, {len(wrong)} failed")
    sys.exit(0 if result.wasSuccessful() and passed > 0 else 1)
