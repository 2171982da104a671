// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Gathers the pages of the site: node stage.mjs FOLDER copies docs/ and adds what has its place elsewhere: the landing
// page and the commands of the README, a page for each sample, and the chart's table of values.
import { cpSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

// uncommented returns the text without its HTML comments, which are for tests and generators.
export const uncommented = (text) => text.replace(/^<!--[^]*?-->\n?/gm, "");

// relink resolves the relative links of a page of that folder against docs/.
export function relink(text, folder) {
  return text.replace(/(\]\()(?![a-z]+:|#|\/)([^)]*)\)/g, (_, open, path) => {
    const target = new URL(path, `file:///root/${folder}/`).pathname.slice("/root/".length);
    const hash = path.includes("#") ? path.slice(path.indexOf("#")) : "";
    return `${open}${target.startsWith("docs/") ? target.slice("docs/".length) : "../" + target}${hash})`;
  });
}

// part returns the text of the page that the pattern finds. It fails if the page has no such text.
function part(page, pattern, what) {
  const found = page.match(pattern);
  if (!found) throw new Error(`no ${what}`);
  return found[1].trim();
}

// section returns the section of the page, without its heading.
const section = (page, heading) => part(page, new RegExp(`^## ${heading}\n([^]*?)(?=^## |$(?![^]))`, "m"), `section ${heading}`);

// home returns the landing page: what the README begins with, and the policy of the quick start with its denial.
export function home(readme, quickStart) {
  const blocks = (language) => quickStart.match(new RegExp("^```" + language + "\n[^]*?^```$", "gm")) ?? [];
  const front = {
    layout: "home",
    hero: {
      name: "Weir",
      text: "Rate limits for Kubernetes",
      tagline: part(readme, /^# Weir\n\n([^]*?)\n\n/, "introduction").replaceAll("`", "").replaceAll("\n", " "),
      actions: [
        { theme: "brand", text: "Quick start on a laptop", link: "/tutorials/laptop" },
        { theme: "brand", text: "Quick start on a cluster", link: "/tasks/gateway-api" },
        { theme: "alt", text: "All pages", link: "/documentation" },
      ],
    },
  };
  const [policy, , denial] = [blocks("yaml")[0], ...blocks("console")];
  if (!policy || !denial) throw new Error("the quick start has no policy or no denial");
  const reasons = relink(part(readme, /^(!\[[^]*?)(?=^[A-Z])/m, "picture"), ".");
  return `---\n${JSON.stringify(front)}\n---\n\n## A policy\n\n${policy}\n\n## A denial\n\n${denial}\n\n## Why Weir\n\n${reasons}\n\n` +
    `## Features\n\n${relink(section(readme, "Features"), ".")}\n`;
}

// trial returns the page with the commands of the README.
export function trial(readme) {
  return `# Try it in a minute\n\n${relink(section(readme, "Try it"), ".")}\n\n## Try it with Kubernetes\n\n` +
    `${relink(section(readme, "Try it with Kubernetes"), ".")}\n`;
}

// sample returns the page of a sample: its first comment as text, then the manifest.
export function sample(name, yaml) {
  const [, comment, manifest] = yaml.match(/^((?:#.*\n)*)([^]*)$/);
  return `# ${name}\n\n${comment.replace(/^# ?/gm, "")}\n\`\`\`yaml\n${manifest.trim()}\n\`\`\`\n`;
}

// values returns the page of the section Values of the chart's README.
export function values(readme) {
  return "# Chart values\n\n" + relink(uncommented(section(readme, "Values")), "charts/weir") + "\n";
}

function stage(folder) {
  const read = (path) => readFileSync(join(root, path), "utf8");
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(root, "docs"), folder, { recursive: true });
  for (const file of readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".md"))) {
    writeFileSync(join(folder, file), uncommented(readFileSync(join(folder, file), "utf8")));
  }
  renameSync(join(folder, "README.md"), join(folder, "documentation.md"));
  writeFileSync(join(folder, "README.md"), home(read("README.md"), read("docs/tutorials/laptop.md")));
  writeFileSync(join(folder, "try.md"), trial(read("README.md")));
  writeFileSync(join(folder, "values.md"), values(read("charts/weir/README.md")));
  mkdirSync(join(folder, "samples"));
  for (const file of readdirSync(join(root, "config/samples"), { recursive: true }).filter((name) => name.endsWith(".yaml"))) {
    const name = basename(file, ".yaml");
    writeFileSync(join(folder, "samples", name + ".md"), sample(name, read("config/samples/" + file)));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) stage(process.argv[2]);
