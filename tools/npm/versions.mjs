// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Lists the versions of a site that has each in a folder: node versions.mjs FOLDER writes versions.json, which the selector
// of every page reads, and an index.html that leads to the newest release.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const pattern = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?$/;

// sorted returns the versions among the names: the newest first, a release before its pre-releases.
export function sorted(names) {
  const parsed = names.map((name) => name.match(pattern)).filter(Boolean);
  const compare = (a, b) =>
    b[1] - a[1] || b[2] - a[2] || b[3] - a[3] || !a[4] - !b[4] && (a[4] ? 1 : -1) ||
    (b[4] ?? "").localeCompare(a[4] ?? "", "en", { numeric: true });
  return parsed.sort(compare).map((match) => match[0]);
}

// newest returns the newest release, or the newest version if there is no release.
export const newest = (versions) => versions.find((version) => !version.includes("-")) ?? versions[0];

function list(folder) {
  const versions = sorted(readdirSync(folder));
  if (versions.length === 0) throw new Error(`${folder} has no folder of a version`);
  writeFileSync(join(folder, "versions.json"), JSON.stringify(versions) + "\n");
  const target = newest(versions) + "/";
  writeFileSync(join(folder, "index.html"),
    `<!doctype html>\n<meta http-equiv="refresh" content="0; url=${target}">\n<title>Weir</title>\n<a href="${target}">Weir ${newest(versions)}</a>\n`);
  console.log(`versions: ${versions.join(" ")}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) list(process.argv[2]);
