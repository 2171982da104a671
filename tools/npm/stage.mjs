// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Gathers the pages of the site: node stage.mjs FOLDER copies docs/ and adds what has its place elsewhere: the README as
// the home page, a page for each sample, and the chart's table of values.
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

// relink resolves the relative links of a page of that folder against docs/.
export function relink(text, folder) {
  return text.replace(/(\]\()(?![a-z]+:|#|\/)([^)]*)\)/g, (_, open, path) => {
    const target = new URL(path, `file:///root/${folder}/`).pathname.slice("/root/".length);
    const hash = path.includes("#") ? path.slice(path.indexOf("#")) : "";
    return `${open}${target.startsWith("docs/") ? target.slice("docs/".length) : "../" + target}${hash})`;
  });
}

// home returns the README without its list of pages, then the lists of docs/README.md.
export function home(readme, lists) {
  const [before, after] = readme.split(/^## Documentation$/m);
  if (after === undefined) throw new Error("README.md has no section Documentation");
  return relink(before, ".") + lists.replace(/^# .*/, "## Documentation");
}

// sample returns the page of a sample: its first comment as text, then the manifest.
export function sample(name, yaml) {
  const [, comment, manifest] = yaml.match(/^((?:#.*\n)*)([^]*)$/);
  return `# ${name}\n\n${comment.replace(/^# ?/gm, "")}\n\`\`\`yaml\n${manifest.trim()}\n\`\`\`\n`;
}

// values returns the page of the section Values of the chart's README.
export function values(readme) {
  const section = readme.match(/^## Values\n([^]*?)(?=^## |$(?![^]))/m);
  if (!section) throw new Error("charts/weir/README.md has no section Values");
  return "# Chart values\n\n" + relink(section[1].replace(/<!--.*-->\n/g, ""), "charts/weir");
}

function stage(folder) {
  const read = (path) => readFileSync(join(root, path), "utf8");
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(root, "docs"), folder, { recursive: true });
  writeFileSync(join(folder, "README.md"), home(read("README.md"), read("docs/README.md")));
  writeFileSync(join(folder, "values.md"), values(read("charts/weir/README.md")));
  mkdirSync(join(folder, "samples"));
  for (const file of readdirSync(join(root, "config/samples"), { recursive: true }).filter((name) => name.endsWith(".yaml"))) {
    const name = basename(file, ".yaml");
    writeFileSync(join(folder, "samples", name + ".md"), sample(name, read("config/samples/" + file)));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) stage(process.argv[2]);
