import type { Page } from '@playwright/test'
import { clear, expect, expectAccessible, read, test } from './gateway'

const call = (page: Page) => page.getByRole('dialog')

test('a call can be found, and tried with the current session', async ({ page }) => {
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

  test('asks first, and shows errors and results', async ({ page }) => {
    await page.goto('/system/api/ntp~pool~create')
    await expect(call(page)).toContainText('Host name or IP address.')
    await expectAccessible(page)
    const send = async (body: string, sure: boolean) => {
      await call(page).getByRole('textbox', { name: 'Body' }).fill(body)
      await call(page).getByRole('button', { name: 'Send request' }).click()
      const question = page.getByRole('dialog', { name: 'Send this request?' })
      await question.getByRole('button', { name: sure ? 'Send request' : 'Cancel' }).click()
    }
    const tried = { address: 'tried.example.net', kind: 'server' }
    const servers = async () => (await read('/ntp/pools')).map(({ address }) => address)
    await clear('/ntp/pools', tried.address)
    await send(JSON.stringify(tried), false)
    expect(await servers()).not.toContain(tried.address)
    await send('{"address": "not a host"}', true)
    await expect(call(page).getByRole('region', { name: 'Answer' })).toContainText('validation_failed')
    await send(JSON.stringify(tried), true)
    await expect(call(page).getByRole('region', { name: 'Answer' })).toContainText('201')
    expect(await servers()).toContain(tried.address)
    await clear('/ntp/pools', tried.address)
  })
})
