"""What all clients must do (clients/conformance), with the waiting and the asyncio client."""

import asyncio
import inspect
import json
import pathlib
import unittest
from typing import Any

import ramcloud
from cluster import DevCluster

FILE = pathlib.Path(__file__).resolve().parents[2] / "conformance" / "operations.json"


def data_of(field: Any) -> bytes:
    if isinstance(field, str):
        return field.encode()
    if "repeat" in field:
        return (field["repeat"] * field["times"]).encode()
    return bytes.fromhex(field["hex"])


class Case:
    """One case with its table and the versions it has saved. `client` is either kind."""

    def __init__(self, test: unittest.TestCase, client: Any, case: dict[str, Any]) -> None:
        self.test, self.client, self.case = test, client, case
        self.saved = {"none": 0}
        self.table: Any = None

    async def run(self) -> None:
        self.table = await self.do(self.client.create_table(self.case["name"], self.case.get("span", 1)))
        for step in self.case["steps"]:
            with self.test.subTest(step=json.dumps(step)[:200]):
                await self.step(step)
        await self.do(self.client.drop_table(self.case["name"]))

    async def do(self, outcome: Any) -> Any:
        """The result of a call of either client."""
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def step(self, s: dict[str, Any]) -> None:
        op = s["op"]
        if op in ("scan", "count"):
            return await self.scan(s)
        try:
            outcome = await self.do(self.start(op, s))
        except ramcloud.RamcloudError as error:
            outcome = error
        if op.startswith("multi_"):
            items = self.items(s)
            self.test.assertEqual(len(outcome), len(items))
            for item, one in zip(items, outcome, strict=True):
                self.check(op, item, one)
        else:
            self.check(op, s, outcome)

    def start(self, op: str, s: dict[str, Any]) -> Any:
        c = self.client
        if op.endswith("_table"):
            name = data_of(s["name"]).decode()
            return c.create_table(name, s.get("span", 1)) if op == "create_table" else getattr(c, op)(name)
        if op == "multi_write":
            return c.multi_write(
                [ramcloud.MultiObject(*self.place(i), data_of(i["value"]), self.rules(i)) for i in self.items(s)]
            )
        if op in ("multi_read", "multi_remove"):
            return getattr(c, op)([ramcloud.MultiKey(*self.place(i), self.rules(i)) for i in self.items(s)])
        if op == "write":
            return c.write(*self.place(s), data_of(s["value"]), self.rules(s))
        if op in ("increment", "increment_double"):
            return getattr(c, op)(*self.place(s), s["delta"], self.rules(s))
        return getattr(c, op)(*self.place(s), self.rules(s))

    def place(self, s: dict[str, Any]) -> tuple[Any, bytes]:
        return s.get("table_id", self.table), data_of(s["key"])

    def items(self, s: dict[str, Any]) -> list[dict[str, Any]]:
        if "items" in s:
            return list(s["items"])
        return [s | {"key": f"{s['key_prefix']}{i}"} for i in range(s["count"])]

    def rules(self, s: dict[str, Any]) -> ramcloud.Conditions:
        given = s.get("if", {})
        return ramcloud.Conditions(
            given.get("absent_fail", False),
            given.get("exists_fail", False),
            self.saved[given["version"]] if "version" in given else 0,
            self.saved[given["newer_than"]] if "newer_than" in given else 0,
        )

    def check(self, op: str, s: dict[str, Any], outcome: Any) -> None:
        got = outcome.name if isinstance(outcome, ramcloud.RamcloudError) else "OK"
        self.test.assertEqual(got, s.get("error", "OK"), outcome if got != "OK" else "")
        if got != "OK" or op.endswith("_table"):
            return
        if op in ("read", "multi_read") and "value" in s:
            self.test.assertTrue(outcome.value == data_of(s["value"]), outcome.value[:100])
        if "sum" in s:
            self.test.assertEqual(outcome.value, s["sum"])
        version = outcome if isinstance(outcome, int) else outcome.version
        if "version_is" in s:
            self.test.assertEqual(version, self.saved[s["version_is"]])
        if "newer_than" in s:
            self.test.assertGreater(version, self.saved[s["newer_than"]])
        if "save" in s:
            self.saved[s["save"]] = version

    async def scan(self, s: dict[str, Any]) -> None:
        found = self.client.scan(self.table, keys_only=s["op"] == "count")
        keys = [o.key async for o in found] if hasattr(found, "__aiter__") else [o.key for o in found]
        if s["op"] == "count":
            self.test.assertEqual(len(keys), s["objects"])
        else:
            self.test.assertEqual(sorted(keys), sorted(data_of(key) for key in s["keys"]))


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = DevCluster()
        cls.cases = json.loads(FILE.read_text())["cases"]

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.stop()

    def test_the_file_has_cases(self) -> None:
        self.assertGreaterEqual(len(self.cases), 10)

    def test_client(self) -> None:
        with ramcloud.Client(self.cluster.address, timeout=120) as client:
            for case in self.cases:
                with self.subTest(case=case["name"]):
                    asyncio.run(Case(self, client, case).run())

    def test_async_client(self) -> None:
        async def run_all() -> None:
            async with ramcloud.AsyncClient(self.cluster.address, timeout=120) as client:
                for case in self.cases:
                    with self.subTest(case=case["name"]):
                        await Case(self, client, case).run()

        asyncio.run(run_all())


if __name__ == "__main__":
    unittest.main()
