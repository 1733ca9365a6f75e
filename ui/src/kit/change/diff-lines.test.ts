import { expect, it } from 'vitest'
import { parseDiff } from './diff-lines'

it('numbers the lines of both sides', () => {
  const text = '--- live/etc/a\n+++ new/etc/a\n@@ -2,2 +2,3 @@\n same\n-old\n+new\n+more\n'
  expect(parseDiff(text)).toEqual([
    { kind: 'file', text: '/etc/a' },
    { kind: 'hunk', text: '@@ -2,2 +2,3 @@' },
    { kind: 'same', text: 'same', before: 2, after: 2 },
    { kind: 'del', text: 'old', before: 3 },
    { kind: 'add', text: 'new', after: 3 },
    { kind: 'add', text: 'more', after: 4 },
  ])
})

it('does not take content for file names', () => {
  const lines = parseDiff('@@ -1 +1 @@\n--- /etc/b\n+++ /etc/b\n')
  expect(lines.map((line) => [line.kind, line.text])).toEqual([
    ['hunk', '@@ -1 +1 @@'],
    ['del', '-- /etc/b'],
    ['add', '++ /etc/b'],
  ])
})

it('handles a new file and one without a newline at its end', () => {
  const lines = parseDiff('--- /dev/null\n+++ /etc/a\n@@ -0,0 +1,1 @@\n+only\n\\ No newline at end of file\n')
  expect(lines.at(-1)).toEqual({ kind: 'add', text: 'only', after: 1 })
})

it('parses an empty diff', () => {
  expect(parseDiff('')).toEqual([])
})
