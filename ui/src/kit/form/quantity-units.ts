type Unit = readonly [name: string, factor: number]

export const scales = {
  size: [
    ['B', 1],
    ['KiB', 1024],
    ['MiB', 1024 ** 2],
    ['GiB', 1024 ** 3],
  ],
  span: [
    ['s', 1],
    ['min', 60],
    ['h', 3600],
    ['d', 86_400],
  ],
} as const satisfies Record<string, readonly Unit[]>

/** The index of the largest unit in which the amount is a whole number. For an empty amount, a middle unit. */
export function unitOf(scale: keyof typeof scales, amount: number | null): number {
  const units: readonly Unit[] = scales[scale]
  return amount ? units.findLastIndex(([, factor]) => amount % factor === 0) : 2
}
