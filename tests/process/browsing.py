# SPDX-License-Identifier: Apache-2.0
"""A real Chromium, driven by Selenium, and what it says of a page: its console and its requests."""

import base64
import contextlib
import importlib.util
import json
import shutil
import time

import pytest

from conftest import WAIT_S, pause

MISSING = [name for name in ("chromium", "chromedriver") if not shutil.which(name)] + [
    name for name in ("selenium", "html5lib") if not importlib.util.find_spec(name)]
needs_browser = pytest.mark.skipif(bool(MISSING), reason=f"no {' '.join(MISSING)}: tools/deps --browser")


class Browser:
    def __init__(self, folder, width=1280, height=900):
        self.requests, self.console = [], []
        from selenium import webdriver  # only where there is one
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        options.binary_location = shutil.which("chromium")
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--disable-background-networking", "--disable-component-update", "--no-first-run",
                     "--hide-scrollbars", "--lang=en-GB", f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_page_load_timeout(WAIT_S)
        self.look(width=width, height=height)

    def open(self, url):
        """From here on its requests and its console are those of this page."""
        self.driver.get("about:blank")
        self.collect()
        self.requests, self.console = [], []
        self.driver.get(url)

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def text(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])]"
                        ".map((node) => node.textContent).join('\\n')", selector)

    def until(self, holds, patience_s=WAIT_S):
        """Looks at the page until it is so. Returns when that was."""
        deadline = time.monotonic() + patience_s
        while not holds():
            assert time.monotonic() < deadline, self.text("body")
            pause()
        return time.monotonic()

    def shows(self, selector, *words):
        """Looks until that place has all the words. Returns when that was."""
        return self.until(lambda: all(word in self.text(selector) for word in words))

    def look(self, scheme="light", width=None, height=None):
        """As one would see it who prefers light or dark, in a window of that size."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        if width:
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": height or 900, "deviceScaleFactor": 1, "mobile": False})

    def picture(self, path, whole=True):
        """A PNG of the whole page, or of what is in the window."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "png", "captureBeyondViewport": whole, **({"clip": clip} if whole else {})})
        path.write_bytes(base64.b64decode(shot["data"]))

    def collect(self):
        """What Chromium has logged since the last time."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        self.console += self.driver.get_log("browser")

    def close(self):
        self.driver.quit()


@contextlib.contextmanager
def browser(folder, **options):
    one = Browser(folder, **options)
    try:
        yield one
    finally:
        one.close()
