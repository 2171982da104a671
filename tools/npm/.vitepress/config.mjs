// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// The site of docs/, built by `make docs` into bin/docs. Pages are written for GitHub too, so links
// to files outside docs/ become links to the repository.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const repository = "https://github.com/weir-dev/weir";
const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const docs = join(root, "docs");

// sidebar returns the lists of docs/README.md.
function sidebar() {
  const groups = [];
  for (const line of readFileSync(join(docs, "README.md"), "utf8").split("\n")) {
    const heading = line.match(/^## (.*)/);
    if (heading) groups.push({ text: heading[1], collapsed: false, items: [] });
    const page = line.match(/^\d+\. \[([^\]]*)\]\(([^)#:]*)/);
    if (page && page[2].endsWith(".md") && !page[2].startsWith("..")) {
      const link = "/" + page[2].replace(/README\.md$/, "").replace(/\.md$/, "");
      groups.at(-1).items.push({ text: page[1], link });
    }
  }
  return groups;
}

// outside turns links that leave docs/, or are no pages, into links to the repository.
function outside(md) {
  const open = md.renderer.rules.link_open;
  md.renderer.rules.link_open = (tokens, index, options, env, self) => {
    const token = tokens[index];
    const [path, hash] = token.attrGet("href").split("#");
    if (path && !/^[a-z]+:/.test(path)) {
      const target = resolve(dirname(join(docs, env.relativePath)), decodeURI(path));
      if (!existsSync(target)) throw new Error(`docs/${env.relativePath}: dead link ${path}`);
      if (path.endsWith("README.md")) token.attrSet("href", path.replace(/README\.md$/, "") + (hash ? "#" + hash : ""));
      if (relative(docs, target).startsWith("..") || !target.endsWith(".md")) {
        token.attrSet("href", `${repository}/blob/main/${relative(root, target)}${hash ? "#" + hash : ""}`);
      }
    }
    return open(tokens, index, options, env, self);
  };
}

// slugify names anchors as GitHub does, so that links work there and here.
function slugify(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "").replaceAll(" ", "-");
}

// literal shows {{ as it is written; Vue would evaluate it.
function literal(md) {
  for (const name of ["text", "code_inline"]) {
    const render = md.renderer.rules[name];
    md.renderer.rules[name] = (...parameters) => render(...parameters).replaceAll("{{", "&#123;&#123;");
  }
}

// vueOfPages finds Vue for the pages, which are outside the folder of node_modules.
const vueOfPages = {
  name: "vue-of-pages",
  enforce: "pre",
  resolveId(id, importer) {
    const isPage = importer?.startsWith(docs) && /^vue(\/|$)/.test(id);
    return isPage ? this.resolve(id, fileURLToPath(import.meta.url)) : undefined;
  },
};

export default defineConfig({
  title: "Weir",
  description: "Rate limits and abuse protection for Kubernetes",
  srcDir: docs,
  outDir: join(root, "bin/docs"),
  cacheDir: join(root, "bin/docs-cache"),
  rewrites: { "README.md": "index.md", "integrations/README.md": "integrations/index.md" },
  cleanUrls: true,
  markdown: {
    html: false,
    anchor: { slugify },
    config: (md) => [outside, literal].forEach((extend) => extend(md)),
  },
  vite: { plugins: [vueOfPages] },
  themeConfig: {
    search: { provider: "local" },
    sidebar: sidebar(),
    outline: [2, 3],
    socialLinks: [{ icon: "github", link: repository }],
  },
});
