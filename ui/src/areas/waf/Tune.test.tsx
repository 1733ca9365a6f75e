import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import './texts'
import { Tune } from './Tune'

const exclusion = (rule_id: number, parameter: string) => ({
  rule_id,
  path: '/search',
  exact: true,
  variable: 'ARGS',
  parameter,
  note: '',
})
const exclusions = [exclusion(941100, 'q'), exclusion(941110, 'q'), exclusion(942100, 'also')]
const proposal = {
  exclusions,
  notes: [],
  replay: {
    before: { refused: true, score: 15, rules: [941100, 941110, 942100] },
    after: { refused: false, score: 0, rules: [] },
  },
  attacks: { total: 67, refused: 65, passing: ['script: element', 'SQL injection: always true'] },
}

let asked: { url: string; body: string }[]

beforeEach(() => {
  asked = []
  // An autosizing text area needs document.fonts, which the test environment lacks.
  Object.defineProperty(document, 'fonts', { value: new EventTarget(), configurable: true })
  vi.stubGlobal('fetch', async (request: Request) => {
    const { pathname } = new URL(request.url)
    asked.push({ url: pathname, body: await request.text() })
    const data = pathname.endsWith('/propose') ? proposal : {}
    return new Response(JSON.stringify({ data, error: null }), { headers: { 'Content-Type': 'application/json' } })
  })
})
afterEach(() => {
  cleanup()
  Reflect.deleteProperty(document, 'fonts')
})

it('shows all that a request needs as one proposal, with what would pass, and saves it at once', async () => {
  const onClose = vi.fn()
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <Tune id="alert-1" onClose={onClose} />
      </QueryClientProvider>
    </MantineProvider>,
  )
  for (const { rule_id, parameter } of exclusions)
    expect(
      await screen.findByText(`Rule ${rule_id} no longer inspects parameter ${parameter} at /search and nowhere else.`),
    ).toBeDefined()
  expect(screen.getByRole('region', { name: 'Now' }).textContent).toContain('refused')
  expect(screen.getByRole('region', { name: 'With all exclusions' }).textContent).toContain('passes')
  expect(screen.getByText('65 of 67 attacks are still refused. These would pass:')).toBeDefined()
  expect(screen.getByText('script: element')).toBeDefined()

  fireEvent.change(screen.getByLabelText('Why was it legitimate?'), { target: { value: 'Help texts.' } })
  fireEvent.click(screen.getByRole('button', { name: 'Add 3 exclusions' }))
  await waitFor(() => expect(onClose).toHaveBeenCalled())
  expect(asked.map(({ url }) => url)).toEqual([
    '/api/v1/waf/alerts/alert-1/propose',
    '/api/v1/waf/alerts/alert-1/exclude',
  ])
  expect(JSON.parse(asked[1]?.body ?? '')).toEqual({ exclusions, note: 'Help texts.' })
})
