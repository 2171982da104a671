// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// The site of docs/, built by hack/docs.sh from the pages that stage.mjs gathers. Pages are written for GitHub too, so
// links to files outside docs/ become links to the repository, unless the site has a page of them.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const repository = "https://github.com/weir-dev/weir";
const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const docs = join(root, "docs");
const { DOCS_PAGES: pages, DOCS_OUT: out, DOCS_BASE: base, DOCS_VERSION: version } = process.env;

// linkOf returns the link to a page, by its path in docs/.
const linkOf = (page) => "/" + page.replace(/README\.md$/, "").replace(/\.md$/, "");

// gathered returns the link to the page that stage.mjs has made of a file outside docs/, undefined if it has none.
function gathered(target) {
  const path = relative(root, target);
  if (path === "README.md") return "/try";
  if (path === "charts/weir/README.md") return "/values";
  if (path === "config/samples") return "/samples/ai-tokens";
  const sample = path.match(/^config\/samples\/(?:.*\/)?([^/]*)\.yaml$/);
  return sample ? `/samples/${sample[1]}` : undefined;
}

// folder returns the links to all pages of a folder of the site, by their titles.
function folder(name) {
  const files = readdirSync(join(pages, name)).filter((file) => file.endsWith(".md") && file !== "README.md");
  const title = (file) => readFileSync(join(pages, name, file), "utf8").match(/^# (.*)/m)[1];
  return files.sort().map((file) => ({ text: title(file), link: linkOf(`${name}/${file}`) }));
}

// sidebar returns the lists of docs/README.md, the first one open, and in them the folders whose pages they do not list.
// It fails for a page that nothing lists.
function sidebar() {
  const groups = lists();
  const listed = new Set(groups.flatMap((group) => group.items.map((item) => item.link)));
  const nest = (group, text, name) => {
    const items = folder(name).filter((item) => !listed.has(item.link));
    items.forEach((item) => listed.add(item.link));
    groups.find((other) => other.text === group).items.push({ text, collapsed: true, items });
  };
  nest("Tasks", "Proxies", "integrations");
  nest("Concepts", "Decision records", "decisions");
  nest("Reference", "Samples", "samples");
  for (const file of readdirSync(docs, { recursive: true })) {
    if (!file.endsWith(".md") || file === "README.md") continue;
    if (!listed.has(linkOf(file))) throw new Error(`docs/README.md does not list docs/${file}`);
  }
  return groups;
}

// lists returns the lists of docs/README.md, each with all pages that it links.
function lists() {
  const groups = [];
  for (const line of readFileSync(join(docs, "README.md"), "utf8").split("\n")) {
    const heading = line.match(/^## (.*)/);
    if (heading) groups.push({ text: heading[1], collapsed: groups.length > 0, items: [] });
    if (!/^( {3}|\d+\.)/.test(line)) continue;
    for (const [, text, page] of line.matchAll(/\[([^\]]*)\]\(([^)#:]*\.md)/g)) {
      const link = page.startsWith("..") ? gathered(resolve(docs, page)) : linkOf(page);
      const items = groups.at(-1).items;
      if (link && !items.some((item) => item.link === link)) items.push({ text, link });
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
      const page = gathered(target);
      if (page) {
        token.attrSet("href", page);
        return open(tokens, index, options, env, self);
      }
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
    const isPage = importer?.startsWith(pages) && /^vue(\/|$)/.test(id);
    return isPage ? this.resolve(id, fileURLToPath(import.meta.url)) : undefined;
  },
};

export default defineConfig({
  title: "Weir",
  description: "Rate limits and abuse protection for Kubernetes",
  base,
  srcDir: pages,
  outDir: out,
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
    version,
    search: { provider: "local" },
    nav: [
      { text: "Quick start", link: "/tutorials/laptop" },
      { text: "Concepts", link: "/concepts" },
      { text: "Runbook", link: "/runbook" },
      { text: "All pages", link: "/documentation" },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    socialLinks: [{ icon: "github", link: repository }],
  },
});
