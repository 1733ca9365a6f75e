import { expect, expectAccessible, onGateway, settled, test } from './gateway'

/** A frozen gateway keeps its connections open but sends nothing, as if a network dropped every packet. */
const signal = (name: 'STOP' | 'CONT') => onGateway('sh', '-c', `kill -${name} $(pgrep -x gateway-api)`)

test.use({ expected: ['net::ERR_', 'WebSocket', 502, 503, 504] })
test.afterEach(() => void signal('CONT'))

test('a gateway that falls silent does not stay green', async ({ page }) => {
  const bar = page.getByRole('status', { name: 'State of the gateway' })
  const green = page.locator('[data-tone="live"]')
  await page.goto('/')
  await settled(page)
  await expect(bar).toContainText('Everything is live')
  // Load the page's code before the gateway falls silent.
  await page.getByRole('link', { name: 'NAT', exact: true }).click()
  await settled(page)
  await page.getByRole('link', { name: 'Overview', exact: true }).click()
  await settled(page)
  const colour = () => green.first().evaluate((badge) => getComputedStyle(badge).color)
  const live = await colour()

  signal('STOP')
  await expect(bar).toContainText(/No connection to the gateway since \d\d:\d\d:\d\d/)
  await expect(page.getByText('up to date')).toHaveCount(0)
  expect(await colour()).not.toBe(live)
  await expect(page.getByText(/Out of date\. Last update \d\d:\d\d:\d\d\./).first()).toBeVisible()
  await expectAccessible(page)

  await test.step('a page that waits says for what', async () => {
    await page.getByRole('link', { name: 'Objects', exact: true }).click()
    await expect(page.getByText(/Waiting for the gateway since \d\d:\d\d:\d\d\./).first()).toBeVisible()
  })

  await test.step('and everything is back when the gateway is', async () => {
    signal('CONT')
    await expect(bar).toContainText('Everything is live')
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await expect(page.getByText('up to date').first()).toBeVisible()
    expect(await colour()).toBe(live)
  })
})
