export interface DiffLine {
  kind: 'add' | 'del' | 'same' | 'hunk' | 'file'
  text: string
  before?: number
  after?: number
}

const hunkHead = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/

/**
 * Parses a unified diff. The head of a hunk says how many lines it has, so a removed line that begins with "--" is
 * never mistaken for a file name.
 */
export function parseDiff(text: string): DiffLine[] {
  const lines: DiffLine[] = []
  let before = 0
  let after = 0
  let beforeEnd = 0
  let afterEnd = 0
  for (const raw of text.split('\n')) {
    if (before < beforeEnd || after < afterEnd) {
      if (raw.startsWith('+')) lines.push({ kind: 'add', text: raw.slice(1), after: after++ })
      else if (raw.startsWith('-')) lines.push({ kind: 'del', text: raw.slice(1), before: before++ })
      else if (!raw.startsWith('\\')) lines.push({ kind: 'same', text: raw.slice(1), before: before++, after: after++ })
      continue
    }
    const head = hunkHead.exec(raw)
    if (head) {
      before = Number(head[1])
      after = Number(head[3])
      beforeEnd = before + Number(head[2] ?? 1)
      afterEnd = after + Number(head[4] ?? 1)
      lines.push({ kind: 'hunk', text: raw })
    } else if (raw.startsWith('+++ ')) {
      lines.push({ kind: 'file', text: (raw.slice(4).split('\t', 1)[0] ?? '').replace(/^\w+(?=\/)/, '') })
    }
  }
  return lines
}
