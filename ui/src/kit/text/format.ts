const binary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(value: number): string {
  const step = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), binary.length - 1) : 0
  const scaled = value / 1024 ** step
  return `${scaled.toFixed(step === 0 || scaled >= 100 ? 0 : 1)} ${binary[step]}`
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : '–'
}

export function count(value: number): string {
  return value.toLocaleString('en')
}

/** A duration in its two largest units: 3 d 4 h, 12 min 5 s. */
export function duration(seconds: number): string {
  const units: [string, number][] = [
    ['d', 86_400],
    ['h', 3600],
    ['min', 60],
    ['s', 1],
  ]
  const first = units.findIndex(([, size]) => seconds >= size)
  if (first < 0) return '0 s'
  let rest = Math.floor(seconds)
  return units
    .slice(first, first + 2)
    .map(([unit, size]) => {
      const amount = Math.floor(rest / size)
      rest -= amount * size
      return amount > 0 ? `${amount} ${unit}` : ''
    })
    .filter(Boolean)
    .join(' ')
}

/** A signed clock offset with three digits in a suitable unit: +1.23 ms. */
export function offset(seconds: number, signed = true): string {
  const size = Math.abs(seconds)
  const [unit, factor] = size < 1e-6 ? ['ns', 1e9] : size < 1e-3 ? ['µs', 1e6] : size < 1 ? ['ms', 1e3] : ['s', 1]
  const sign = seconds < 0 ? '−' : signed ? '+' : ''
  return `${sign}${(size * (factor as number)).toPrecision(3)} ${unit}`
}

const relativeUnits: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
]
const relativeFormat = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'short' })

/** "5 min ago". Below a minute it shows no seconds, so that the text does not flicker. */
export function relative(from: number, now: number, justNow: string): string {
  const seconds = (from - now) / 1000
  for (const [unit, size] of relativeUnits) {
    if (Math.abs(seconds) >= size) return relativeFormat.format(Math.round(seconds / size), unit).replace('.', '')
  }
  return justNow
}

export function exactTime(from: number | string): string {
  return new Date(from).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
}

export function clockTime(from: number | string): string {
  return new Date(from).toLocaleTimeString('en-GB')
}

/** A time in the format of a local time input, to the second. */
export function localInput(at: number): string {
  const moment = new Date(at)
  return new Date(at - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}
