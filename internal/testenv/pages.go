// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import "regexp"

// CodeBlocks returns the code blocks of a page of the documentation in that language, each with its last newline.
func CodeBlocks(page, language string) (blocks []string) {
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}
