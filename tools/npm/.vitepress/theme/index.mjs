// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// The theme of the site: the default one with a selector of versions, if the site is one of several.
import { useData, useRoute, withBase } from "vitepress";
import DefaultTheme from "vitepress/theme";
import { h, onMounted, ref } from "vue";
import "./style.css";

// Versions shows the version of the page, and the others once versions.json is read.
const Versions = {
  setup() {
    const { theme } = useData();
    const route = useRoute();
    const current = theme.value.version;
    const versions = ref([current]);
    const site = () => new URL("..", location.origin + withBase("/"));
    onMounted(async () => {
      if (!current) return;
      const response = await fetch(new URL("versions.json", site())).catch(() => null);
      if (response?.ok) versions.value = await response.json();
    });
    // open opens the same page of another version, or its home page if it has none.
    const open = async (version) => {
      const page = new URL(version + "/" + route.path.slice(withBase("/").length), site());
      const found = await fetch(page, { method: "HEAD" }).catch(() => null);
      location.assign(found?.ok ? page : new URL(version + "/", site()));
    };
    return () => current && h("select", {
      "aria-label": "Version", value: current, style: "margin-left: 12px; appearance: auto",
      onChange: (event) => open(event.target.value),
    }, versions.value.map((version) => h("option", { value: version }, version)));
  },
};

export default { extends: DefaultTheme, Layout: () => h(DefaultTheme.Layout, null, { "nav-bar-content-after": () => h(Versions) }) };
