/** The new index of a row that is put into a gap. The gap that it leaves behind closes. */
export const placeIn = (gap: number, from: number) => (gap > from ? gap - 1 : gap)

/** The gap in which a row gets this index. */
export const gapOf = (place: number, from: number) => (place > from ? place + 1 : place)

/** The gap nearest to the pointer: above or below the row's middle. */
export const gapAt = (index: number, { top, height }: { top: number; height: number }, y: number) =>
  y > top + height / 2 ? index + 1 : index

/** How far to scroll while a row is held near the edge of the visible area. */
export function scrollNear(y: number, top: number, bottom: number): number {
  const edge = 40
  if (y < top + edge) return -Math.min(top + edge - y, edge) / 3
  return y > bottom - edge ? Math.min(y - bottom + edge, edge) / 3 : 0
}
