// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { home, relink, sample, values } from "./stage.mjs";
import { newest, sorted } from "./versions.mjs";

test("versions are sorted, the newest first", () => {
  assert.deepEqual(sorted(["0.9.0", "index.html", "0.10.0", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "v2", "0.10.1"]),
    ["1.0.0", "1.0.0-rc.10", "1.0.0-rc.2", "0.10.1", "0.10.0", "0.9.0"]);
});

test("the site begins with the newest release", () => {
  assert.equal(newest(["2.0.0-rc.1", "1.0.0", "0.9.0"]), "1.0.0");
  assert.equal(newest(["2.0.0-rc.1"]), "2.0.0-rc.1");
});

test("links of other folders are resolved against docs/", () => {
  assert.equal(relink("[a](docs/x.md#y) [b](SECURITY.md) [c](https://x/y) [d](#e)", "."), "[a](x.md#y) [b](../SECURITY.md) [c](https://x/y) [d](#e)");
  assert.equal(relink("[a](../../docs/x.md)", "charts/weir"), "[a](x.md)");
});

test("the home page is the README, then the lists", () => {
  assert.equal(home("# Weir\n\n[i](docs/i.md)\n\n## Documentation\n\nlist\n\n## Development\n", "# Documentation\n\n## New here\n"),
    "# Weir\n\n[i](i.md)\n\n## Documentation\n\n## New here\n");
  assert.throws(() => home("# Weir\n", ""), /no section Documentation/);
});

test("a sample is its comment and its manifest", () => {
  assert.equal(sample("burst", "# At most three.\n#\n# More.\napiVersion: v1\nspec:\n  # kept\n  a: 1\n"),
    "# burst\n\nAt most three.\n\nMore.\n\n```yaml\napiVersion: v1\nspec:\n  # kept\n  a: 1\n```\n");
});

test("the values are the section of the chart", () => {
  assert.equal(values("# weir\n\n## Values\n\nText.\n<!-- values -->\n\n| `a` |\n\n## More\n"), "# Chart values\n\n\nText.\n\n| `a` |\n\n");
  assert.match(values("# weir\n\n## Values\n\n| `z` |\n"), /\| `z` \|/);
  assert.throws(() => values("# weir\n"), /no section Values/);
});
