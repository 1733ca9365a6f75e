import type { Page } from '@playwright/test'
import { byAPI, expect, expectAccessible, test } from './gateway'

const call = (page: Page) => page.getByRole('dialog')

test('a call is found, and tried with the own session', async ({ page }) => {
  await page.goto('/system/api')
  await page.getByLabel('Search this list').fill('auth/me')
  await page.getByRole('link', { name: '/auth/me' }).click()
  await expect(call(page)).toContainText('All users. It changes nothing.')
  await call(page).getByRole('button', { name: 'Send request' }).click()
  const answer = call(page).getByRole('region', { name: 'Answer' })
  await expect(answer).toContainText('200')
  await expect(answer).toContainText('"role": "admin"')
  await expectAccessible(page)
})

test.describe('a call that changes something', () => {
  test.use({ expected: [400] })

  test('asks first, and shows what was wrong and what was done', async ({ page }) => {
    await page.goto('/system/api/ntp~pool~create')
    await expect(call(page)).toContainText('Host name or IP address.')
    await expectAccessible(page)
    const send = async (body: string, sure: boolean) => {
      await call(page).getByRole('textbox', { name: 'Body' }).fill(body)
      await call(page).getByRole('button', { name: 'Send request' }).click()
      const question = page.getByRole('dialog', { name: 'Send this request?' })
      await question.getByRole('button', { name: sure ? 'Send request' : 'Cancel' }).click()
    }
    const servers = () =>
      byAPI(async (api) => (await (await api.get('/api/v1/ntp/pools')).json()).data as { address: string }[])
    const tried = { address: 'tried.example.net', kind: 'server' }
    await send(JSON.stringify(tried), false)
    expect((await servers()).map(({ address }) => address)).not.toContain(tried.address)
    await send('{"address": "not a host"}', true)
    await expect(call(page).getByRole('region', { name: 'Answer' })).toContainText('validation_failed')
    await send(JSON.stringify(tried), true)
    await expect(call(page).getByRole('region', { name: 'Answer' })).toContainText('201')
    const made = (await servers()).find(({ address }) => address === tried.address)
    expect(made).toBeTruthy()
    await byAPI((api) => api.delete(`/api/v1/ntp/pools/${(made as unknown as { id: string }).id}`))
  })
})
