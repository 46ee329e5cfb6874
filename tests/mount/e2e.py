"""What the tests that read whole trees add to the harness: settings by key, counters, warming by name."""
import json
import os
import shutil

import harness
from harness import BIN, STOKER, is_mounted  # for the tests

__all__ = ["BIN", "STOKER", "Place", "is_mounted"]


class Place(harness.Place):
    """A place whose cache has room for everything unless a test says otherwise."""

    def mount_with(self, settings=None, env=None):
        """Mounts in the background with these configuration keys; `env` is added to the daemon's environment."""
        options = []
        for key, value in {"cache.size": "20GiB", "cache.min_free": "0", **(settings or {})}.items():
            options += ["-o", f"{key}={value}"]
        self.stoker(*self.mount_arguments(*options), check=harness.OK, env={**os.environ, **(env or {})})

    def poll(self):
        """The status, asked on the socket itself: quick enough to watch with."""
        code, text = harness.ask(self.socket(), "GET", "/status")
        if code != 200:
            raise AssertionError(f"GET /status: {code} {text}")
        return json.loads(text)

    def metric(self, name):
        """One metric by its name in metric_defs.h."""
        return self.poll()["metrics"][name]

    def try_warm(self, *names):
        """`stoker warm` of names below the mount, whatever comes of it."""
        return self.warm(*[os.path.normpath(os.path.join(self.mnt, name)) for name in names], check=None)

    def forget_cache(self):
        """Unmounts if mounted, and deletes the cache."""
        if is_mounted(self.mnt):
            self.umount()
        shutil.rmtree(self.cache, ignore_errors=True)
