// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { home, relink, sample, trial, uncommented, values } from "./stage.mjs";
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

const readme = "# Weir\n\nLimits `all`\nrequests.\n\n![i](docs/i.svg)\n\n- **Exact.** Yes,\n  [always](docs/a.md).\n\nA policy:\n\n" +
  "## Try it\n\nrun\n\n## Try it with Kubernetes\n\nmake\n\n## Features\n\n| a |\n\n## Documentation\n";

test("the landing page has the introduction, a policy, a denial, the reasons and the features", () => {
  const page = home(readme, "```yaml\na: 1\n```\n```console\n$ x\n200\n```\n```console\n$ x\n429\n```\n");
  const [, front, content] = page.split("---\n");
  assert.equal(JSON.parse(front).hero.tagline, "Limits all requests.");
  assert.deepEqual(JSON.parse(front).hero.actions.map((action) => action.link), ["/tutorials/laptop", "/tasks/gateway-api", "/documentation"]);
  assert.equal(content, "\n## A policy\n\n```yaml\na: 1\n```\n\n## A denial\n\n```console\n$ x\n429\n```\n\n" +
    "## Why Weir\n\n![i](i.svg)\n\n- **Exact.** Yes,\n  [always](a.md).\n\n## Features\n\n| a |\n");
  assert.throws(() => home("# Weir\n", ""), /no introduction/);
  assert.throws(() => home(readme, ""), /no policy or no denial/);
});

test("the page of the commands has two sections of the README", () => {
  assert.equal(trial(readme), "# Try it in a minute\n\nrun\n\n## Try it with Kubernetes\n\nmake\n");
  assert.throws(() => trial("# Weir\n"), /no section Try it/);
});

test("a sample is its comment and its manifest", () => {
  assert.equal(sample("burst", "# At most three.\n#\n# More.\napiVersion: v1\nspec:\n  # kept\n  a: 1\n"),
    "# burst\n\nAt most three.\n\nMore.\n\n```yaml\napiVersion: v1\nspec:\n  # kept\n  a: 1\n```\n");
});

test("comments are not shown", () => {
  assert.equal(uncommented("a\n<!-- b -->\nc `<!-- d -->`\n<!-- e\nf -->\n```sh\ng\n```\n"), "a\nc `<!-- d -->`\n```sh\ng\n```\n");
});

test("the values are the section of the chart", () => {
  assert.equal(values("# weir\n\n## Values\n\nText.\n<!-- values -->\n\n| `a` |\n\n## More\n"), "# Chart values\n\nText.\n\n| `a` |\n");
  assert.match(values("# weir\n\n## Values\n\n| `z` |\n"), /\| `z` \|/);
  assert.throws(() => values("# weir\n"), /no section Values/);
});
