import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it, vi } from 'vitest'
import { meQuery } from '../../api/session'
import type { Tunnel, TunnelPeer } from '../../api/types'
import { addTexts } from '../../i18n/i18n'
import { PeerConfig } from './Config'
import en from './en.json'

addTexts('tunnels', en)
afterEach(cleanup)

const tunnel = { id: 't0', name: 'wg0', mode: 'server', client_routes: '', public_key: 'the key of wg0' } as Tunnel
const text = '[Interface]\nPrivateKey = secret\n'

/** Answers like the gateway, and records the requests. */
function show(has_private_key: boolean, role: 'admin' | 'viewer', qr: () => Response) {
  const asked: string[] = []
  vi.stubGlobal('fetch', async ({ url }: Request) => {
    asked.push(url.replace(/.*\/api\/v1/, ''))
    if (url.endsWith('/config')) return new Response(text)
    return url.endsWith('/qr') ? qr() : Response.json({ data: [], error: null })
  })
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  queries.setQueryData(meQuery.queryKey, { role } as never)
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <PeerConfig tunnel={tunnel} peer={{ id: 'p1', name: 'Anna', has_private_key } as TunnelPeer} />
      </QueryClientProvider>
    </MantineProvider>,
  )
  return asked
}
const picture = () => new Response('png', { headers: { 'Content-Type': 'image/png' } })

it('shows the QR code, the file and the text of a peer whose private key is known', async () => {
  show(true, 'admin', picture)
  const code = await screen.findByRole('img', { name: 'QR code of the configuration of Anna' })
  expect(code.getAttribute('src')).toMatch(/^data:image\/png;base64,/)
  expect(screen.getByRole('link', { name: 'Download file' }).getAttribute('href')).toBe('/api/v1/peers/p1/config')
  expect(screen.getByText(/PrivateKey = secret/)).toBeTruthy()
})

it('keeps the file if the text is too long for a QR code', async () => {
  const error = { code: 'conflict', message: 'Too long for a QR code.' }
  show(true, 'admin', () => Response.json({ data: null, error }, { status: 409 }))
  expect(await screen.findByText('Too long for a QR code.')).toBeTruthy()
  expect(screen.getByRole('link', { name: 'Download file' })).toBeTruthy()
})

it('says why there is none, and what the device needs instead', () => {
  const asked = show(false, 'admin', picture)
  expect(screen.getByText('No configuration available')).toBeTruthy()
  expect(screen.getByText('the key of wg0')).toBeTruthy()
  expect(asked.filter((path) => path.startsWith('/peers'))).toEqual([])
})

it('is not requested for a viewer', () => {
  const asked = show(true, 'viewer', picture)
  expect(screen.getByText(/Only administrators/)).toBeTruthy()
  expect(asked).toEqual([])
})
