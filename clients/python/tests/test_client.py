"""What the conformance file does not show: many calls at once, cancelling, deadlines, threads, closing."""

import asyncio
import math
import pathlib
import socket
import threading
import unittest
import unittest.mock
from typing import Any

import ramcloud
from cluster import DevCluster
from ramcloud import _calls, _native


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = DevCluster(servers=2)
        with ramcloud.Client(cls.cluster.address) as client:
            cls.table = client.create_table("t", span=2)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.stop()

    def test_the_library_is_the_wheels_own(self) -> None:
        folder = pathlib.Path(ramcloud.__file__).parent
        self.assertTrue((folder / "_lib" / "libramcloud.so.2").exists())
        self.assertTrue((folder / "py.typed").exists())

    def test_text_and_bytes_are_taken(self) -> None:
        with ramcloud.Client(self.cluster.address) as client:
            client.write(self.table, "é", "ü")
            found = client.read(self.table, "é".encode())
            self.assertEqual((found.key, found.value), ("é".encode(), "ü".encode()))
            self.assertEqual(client.open_table("t"), self.table)
            self.assertIn(self.table, client.list_tables())

    def test_errors_say_what_is_wrong(self) -> None:
        with self.assertRaisesRegex(ramcloud.InvalidArgumentError, "nowhere"):
            ramcloud.Client("nowhere")
        with ramcloud.Client(self.cluster.address) as client:
            with self.assertRaises(ramcloud.NotFoundError) as caught:
                client.open_table("no such table")
            self.assertEqual(caught.exception.code, ramcloud.ErrorCode.NOT_FOUND)
            self.assertEqual(caught.exception.name, "NOT_FOUND")
            with self.assertRaisesRegex(ramcloud.InvalidArgumentError, "only_newer_than"):
                client.read(self.table, "k", ramcloud.Conditions(only_version=1, only_newer_than=1))
            with self.assertRaisesRegex(ramcloud.InvalidArgumentError, "delta is 9223372036854775808"):
                client.increment(self.table, "k", 2**63)
            for timeout in (0, -1, -math.inf, math.nan):
                with self.assertRaisesRegex(ramcloud.InvalidArgumentError, "timeout is"):
                    client.read(self.table, "k", timeout=timeout)
        with self.assertRaisesRegex(ramcloud.InvalidArgumentError, "closed"):
            client.read(self.table, "k")
        client.close()

    def test_a_call_has_a_deadline(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, never answers
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            with ramcloud.Client(address, timeout=math.inf) as client:
                with self.assertRaises(ramcloud.UnavailableError):
                    client.list_tables(timeout=0.2)

    def test_threads_share_a_client(self) -> None:
        with ramcloud.Client(self.cluster.address) as client:

            def count() -> None:
                for _ in range(50):
                    client.increment(self.table, "threads")

            threads = [threading.Thread(target=count) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(client.increment(self.table, "threads", 0).value, 400)

    def test_many_calls_at_the_same_time(self) -> None:
        async def run() -> None:
            async with ramcloud.AsyncClient(self.cluster.address) as client:
                await asyncio.gather(*(client.write(self.table, f"a{i}", str(i)) for i in range(500)))
                found = await asyncio.gather(*(client.read(self.table, f"a{i}") for i in range(500)))
                self.assertEqual([int(o.value) for o in found], list(range(500)))
                outcomes = await asyncio.gather(
                    client.read(self.table, "none"), client.read(self.table, "a1"), return_exceptions=True
                )
                self.assertIsInstance(outcomes[0], ramcloud.NotFoundError)
                self.assertIsInstance(outcomes[1], ramcloud.Object)

        asyncio.run(run())

    def test_a_cancelled_task_is_a_cancelled_call(self) -> None:
        async def run() -> None:
            with socket.create_server(("127.0.0.1", 0)) as silent:
                client = ramcloud.AsyncClient(f"127.0.0.1:{silent.getsockname()[1]}", timeout=math.inf)
                task = asyncio.create_task(client.list_tables())
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(task, 0.2)
                left = asyncio.create_task(client.list_tables())
                await asyncio.sleep(0)
                await client.close()
                with self.assertRaises(ramcloud.CancelledError):
                    await left
                await client.close()

        asyncio.run(run())

    def test_a_turn_costs_what_is_done_and_not_what_is_outstanding(self) -> None:
        async def run() -> int:
            with socket.create_server(("127.0.0.1", 0)) as silent:
                client = ramcloud.AsyncClient(f"127.0.0.1:{silent.getsockname()[1]}", timeout=math.inf)
                tasks = [asyncio.create_task(client.list_tables()) for _ in range(200)]
                await asyncio.sleep(0)
                looked_at = 0
                original = _calls.Call.done

                def counted(call: Any) -> bool:
                    nonlocal looked_at
                    looked_at += 1
                    return original(call)

                with unittest.mock.patch.object(_calls.Call, "done", counted):
                    for _ in range(50):
                        client._turn()
                await client.close()
                for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                    self.assertIsInstance(outcome, ramcloud.CancelledError)
                return looked_at

        self.assertLess(asyncio.run(run()), 200)

    def test_a_result_that_cannot_be_taken_does_not_hold_up_others(self) -> None:
        async def run() -> None:
            async with ramcloud.AsyncClient(self.cluster.address) as client:
                await client.write(self.table, "strange", "v")

                def broken(_: Any) -> None:
                    raise StopIteration("strange")

                calls = [client.read(self.table, "strange") for _ in range(10)]
                native = client._native.read

                def read(*arguments: Any) -> Any:
                    client._native.read = native  # type: ignore[method-assign]
                    call = native(*arguments)
                    call._decode = broken  # type: ignore[assignment]
                    return call

                client._native.read = read  # type: ignore[method-assign]
                async with asyncio.timeout(20):
                    outcomes = await asyncio.gather(*calls, return_exceptions=True)
                self.assertIsInstance(outcomes[0], ramcloud.RamcloudError)
                self.assertRegex(str(outcomes[0]), "INTERNAL: .*StopIteration")
                for outcome in outcomes[1:]:
                    self.assertEqual(outcome.value, b"v")  # type: ignore[union-attr]

        asyncio.run(run())

    def test_a_scan_begins_inside_the_lock(self) -> None:
        with ramcloud.Client(self.cluster.address) as client:
            begun: list[bool] = []
            scan = client._native.scan

            def watched(*arguments: Any) -> Any:
                begun.append(client._lock.locked())
                return scan(*arguments)

            client._native.scan = watched  # type: ignore[method-assign]
            list(client.scan(self.table))
            self.assertEqual(begun, [True])

    def test_every_code_has_its_name(self) -> None:
        names = {int(code): code.name for code in ramcloud.ErrorCode}
        self.assertEqual({n: _native.lib.ramcloud_status_name(n).decode() for n in names}, names)
        self.assertEqual(names[18], "CORRUPT")

    def test_a_scan_ends_with_its_client(self) -> None:
        async def run() -> None:
            client = ramcloud.AsyncClient(self.cluster.address)
            await client.write(self.table, "scanned", "v")
            scan = client.scan(self.table)
            await anext(scan)
            await client.close()
            with self.assertRaisesRegex(ramcloud.InvalidArgumentError, "closed"):
                async with asyncio.timeout(20):
                    async for _ in scan:
                        pass

        asyncio.run(run())

    def test_a_call_that_begins_while_the_client_closes_is_refused(self) -> None:
        async def run() -> None:
            client = ramcloud.AsyncClient(self.cluster.address)
            closing = asyncio.create_task(client.close())
            late = asyncio.create_task(client.list_tables())
            await closing
            with self.assertRaisesRegex(ramcloud.InvalidArgumentError, "closed"):
                async with asyncio.timeout(20):
                    await late

        asyncio.run(run())

    def test_an_idle_client_does_not_spin(self) -> None:
        async def run() -> int:
            async with ramcloud.AsyncClient(self.cluster.address) as client:
                await client.list_tables()
                turns = 0
                poll = client._native.poll

                def counted() -> float:
                    nonlocal turns
                    turns += 1
                    return poll()

                client._native.poll = counted  # type: ignore[method-assign]
                await asyncio.sleep(0.3)
                return turns

        self.assertLess(asyncio.run(run()), 50)


if __name__ == "__main__":
    unittest.main()
