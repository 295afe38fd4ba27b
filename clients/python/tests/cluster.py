"""A real `ramcloudd dev` for the tests, on ports that the kernel chose."""

import os
import subprocess
import tempfile
import threading


class DevCluster:
    """Starts it and waits until it is ready; RAMCLOUDD_BIN says where the program is."""

    def __init__(self, servers: int = 3) -> None:
        self._folder = tempfile.TemporaryDirectory()
        command = [os.environ["RAMCLOUDD_BIN"], "dev", "--listen", "127.0.0.1:0", "--dir", self._folder.name,
                   "--servers", str(servers), "--log-memory", "64MiB", "--log-level", "error"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready:"):
                self.address = line.split("--cluster ")[1].split()[0]
                break
        else:
            raise RuntimeError(f"ramcloudd ended with {self._process.wait()}")
        # Read later output, too, so that the pipe does not fill up.
        self._drain = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._drain.start()

    def stop(self) -> None:
        self._process.terminate()
        code = self._process.wait(60)
        self._drain.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()
        assert code == 0, f"ramcloudd ended with {code}"
