import { expect, it } from 'vitest'

type Texts = { [key: string]: string | Texts }

function flat(texts: Texts, path = ''): [key: string, text: string][] {
  return Object.entries(texts).flatMap(([key, value]): [string, string][] =>
    typeof value === 'string' ? [[`${path}.${key}`, value]] : flat(value, `${path}.${key}`),
  )
}

it('has a singular form wherever it counts things', () => {
  const files = import.meta.glob<Texts>(['../**/*.json'], { eager: true, import: 'default' })
  const texts = Object.entries(files).flatMap(([file, content]) => flat(content, file))
  expect(texts.length).toBeGreaterThan(1000)
  const keys = new Set(texts.map(([key]) => key))
  const wrong = texts.filter(
    ([key, text]) =>
      (/\{\{count[^}]*\}\} [a-z]+s\b/.test(text) && !/_(?:one|other)$/.test(key)) ||
      (key.endsWith('_other') && !keys.has(key.replace(/_other$/, '_one'))),
  )
  expect(wrong).toEqual([])
})
