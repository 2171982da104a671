// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Checks the links between the pages of a built site: node check-links.mjs FOLDER BASE, where BASE is the path at
// which the folder is served. A page or an anchor that does not exist fails. VitePress checks pages, but no anchors.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";

const [site, base] = process.argv.slice(2);
const text = (encoded) => encoded.replaceAll("&amp;", "&").replaceAll("&#39;", "'").replaceAll("&quot;", '"');

// pages maps the URL of each page to its anchors and links.
const pages = new Map();
for (const file of readdirSync(site, { recursive: true }).filter((name) => name.endsWith(".html") && name !== "404.html")) {
  const html = readFileSync(join(site, file), "utf8");
  const all = (pattern) => [...html.matchAll(pattern)].map((match) => text(match[1]));
  const url = base + relative(".", file).replace(/(^|\/)index\.html$/, "$1").replace(/\.html$/, "");
  pages.set(url, { anchors: new Set(all(/\sid="([^"]*)"/g)), links: all(/<a\s[^>]*?href="([^"]*)"/g) });
}

let checked = 0;
const dead = new Set();
for (const [url, { links }] of pages) {
  for (const link of links) {
    const target = new URL(link, "http://site" + url);
    if (target.host !== "site") continue;
    checked++;
    const path = decodeURI(target.pathname);
    const page = pages.get(path);
    const anchor = decodeURIComponent(target.hash.slice(1));
    if (page ? anchor && !page.anchors.has(anchor) : !existsSync(join(site, relative(base, path)))) dead.add(`${url}: dead link ${link}`);
  }
}
dead.forEach((line) => console.error(line));
console.log(`${checked} links between ${pages.size} pages, ${dead.size} dead`);
process.exit(dead.size > 0 || checked === 0 ? 1 : 0);
