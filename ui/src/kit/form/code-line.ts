/** The line that an error such as "line 3: …" is about, with its number. */
export function lineOf(complaint: string | undefined, text: string): { number: number; text: string } | undefined {
  const number = Number(/\bline (\d+)/i.exec(complaint ?? '')?.[1])
  const line = text.split('\n')[number - 1]
  return line === undefined ? undefined : { number, text: line }
}
