import {
  baseURL,
  choose,
  clear,
  clearAll,
  expect,
  expectAccessible,
  knock,
  knockUntil,
  make,
  makeAll,
  moveUp,
  onGateway,
  read,
  settled,
  test,
} from './gateway'

const gateway = new URL(baseURL).hostname

const rules = () => read('/firewall/rules')
const makeRule = (name: string, data: object = {}) =>
  make('/firewall/rules', { name, src_zone: 'lan', dst_zone: 'wan', action: 'accept', ...data })

/** Deletes what the tests create. */
async function clean() {
  const mine = [
    'Web for all',
    'First',
    'First (copy)',
    'Between',
    'Second',
    'To the shop',
    'Typed by hand',
    'Wide open',
  ]
  await clear('/firewall/rules', ...mine)
  await clear('/firewall/address-objects', 'shop')
  await clear('/firewall/services', 'tcp/8643')
  await clear('/nat-rules', 'Shop', 'Mixed')
}
test.beforeEach(clean)
test.afterAll(clean)

test('a rule between zones goes from the browser to the kernel', async ({ page }) => {
  await page.goto('/firewall/rules')
  await page.getByRole('link', { name: 'Add a rule' }).click()
  await page.getByLabel('Name').fill('Web for all')
  await choose(page, 'From zone', 'lan')
  await choose(page, 'To zone', 'wan')
  await choose(page, 'Service', 'Web')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Preview changes' }).click()
  const preview = page.getByRole('region', { name: 'Preview changes' })
  await expect(preview.getByRole('row').filter({ hasText: 'gid:' }).filter({ hasText: 'added' })).toBeVisible()
  await expect(preview.getByText(/No connection is affected: \d+ live/)).toBeVisible()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(page.getByText('The change is live.')).toBeVisible()

  const row = page.getByRole('row').filter({ hasText: 'Web for all' })
  await expect(row).toContainText('accept')
  const id = (await rules()).find(({ name }) => name === 'Web for all')?.id
  expect(id).toBeTruthy()
  expect(onGateway('nft', 'list', 'table', 'inet', 'gateway')).toContain(`gid:${id}`)

  await test.step('and off and on again in the list', async () => {
    await row.getByRole('switch').click()
    await expect(page.getByText('Web for all is off')).toBeVisible()
    expect(onGateway('nft', 'list', 'table', 'inet', 'gateway')).not.toContain(`gid:${id}`)
    await row.getByRole('switch').click()
    await expect(page.getByText('Web for all is on')).toBeVisible()
  })

  await test.step('its notes change without an apply', async () => {
    await row.getByRole('link', { name: 'Web for all' }).click()
    await expect(page.getByLabel('Description')).toBeVisible()
    await expect(page.getByLabel('Note')).toHaveCount(0)
    await page.getByRole('combobox', { name: 'Labels' }).fill('mia')
    await page.keyboard.press('Enter')
    const patched = page.waitForRequest((request) => request.method() === 'PATCH')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    expect((await patched).postDataJSON()).toEqual({ labels: ['mia'] })
    await expect(page.getByRole('dialog')).toBeHidden()
    await page.getByLabel('Search this list').fill('mia')
    await expect(page.getByText('Rows cannot be moved while')).toBeVisible()
    await expect(page.getByRole('table', { name: 'Rules', exact: true }).getByRole('row')).toHaveCount(2)
  })
})

test('rules are reordered with the keyboard and the pointer', async ({ page }) => {
  await makeRule('First')
  await makeRule('Second')
  await page.goto('/firewall/rules')
  const names = () => page.getByRole('row').getByRole('link').allTextContents()
  await expect.poll(async () => (await names()).slice(-2)).toEqual(['First', 'Second'])
  await moveUp(page, 'Second')
  await expect(page.getByText('The new order is saved')).toBeVisible()
  expect((await names()).slice(-2)).toEqual(['Second', 'First'])
  expect((await rules()).slice(-2).map(({ name }) => name)).toEqual(['Second', 'First'])

  await test.step('by the pointer', async () => {
    const handle = (name: string) => page.getByRole('button', { name: `Move ${name}`, exact: true })
    await handle('First').hover()
    await page.mouse.down()
    await handle('Second').hover({ position: { x: 4, y: 1 } })
    await expect(page.locator('[data-drop="before"]')).toContainText('Second')
    await page.mouse.up()
    await expect.poll(async () => (await rules()).slice(-2).map(({ name }) => name)).toEqual(['First', 'Second'])
    await expect.poll(async () => (await names()).slice(-2)).toEqual(['First', 'Second'])
  })

  await test.step('by the menu, and a copy stands behind its original', async () => {
    await page.getByRole('button', { name: 'More actions for First' }).click()
    await page.getByRole('menuitem', { name: 'Move to the top' }).click()
    await expect.poll(async () => (await names())[0]).toBe('First')
    await page.getByRole('button', { name: 'More actions for First' }).click()
    await page.getByRole('menuitem', { name: 'Duplicate' }).click()
    await expect(page.getByLabel('Name')).toHaveValue('First (copy)')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect.poll(async () => (await names()).slice(0, 2)).toEqual(['First', 'First (copy)'])
  })

  await test.step('and a new one comes between them', async () => {
    await page.getByRole('button', { name: 'More actions for First', exact: true }).click()
    await page.getByRole('menuitem', { name: 'Add a rule below' }).click()
    await page.getByLabel('Name').fill('Between')
    await choose(page, 'From zone', 'lan')
    await choose(page, 'To zone', 'wan')
    await choose(page, 'Service', 'Web')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect.poll(async () => (await names()).slice(0, 3)).toEqual(['First', 'Between', 'First (copy)'])
    await expect(page.getByRole('row').filter({ hasText: 'Between' }).getByRole('cell').nth(2)).toHaveText('2')
  })

  await test.step('several are turned off and deleted with one change each', async () => {
    const copies = async () => (await rules()).filter(({ name }) => ['Between', 'First (copy)'].includes(name))
    for (const name of ['Between', 'First (copy)']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
    const bar = page.getByRole('region', { name: 'Selected rows' })
    await expect(bar).toContainText('2 selected')
    await expectAccessible(page)
    await bar.getByRole('button', { name: 'Turn off' }).click()
    const dialog = page.getByRole('dialog')
    await expect(dialog).toContainText('Between, First (copy)')
    await dialog.getByRole('button', { name: 'Preview changes' }).click()
    await expect(dialog.getByRole('region', { name: 'Preview changes' })).toContainText('2 firewall rules changed')
    await dialog.getByRole('button', { name: 'Turn off' }).click()
    await expect(dialog).toBeHidden()
    expect((await copies()).map(({ enabled }) => enabled)).toEqual([false, false])
    await expect(bar).toBeHidden()
    for (const name of ['Between', 'First (copy)']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
    await bar.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
    await expect(dialog).toBeHidden()
    expect(await copies()).toEqual([])
  })
})

test.describe('an object in use', () => {
  test.use({ expected: [409] })

  test('cannot be deleted, and lists its users', async ({ page }) => {
    const shop = await make('/firewall/address-objects', { name: 'shop', kind: 'host', value: '10.10.0.20' })
    await makeRule('To the shop', { dst_zone: 'lan', dst_kind: 'object', dst_object_id: shop.id })
    await page.goto('/firewall/objects')
    await page.getByRole('button', { name: 'shop is used by 1' }).click()
    await expect(page.getByRole('link', { name: 'To the shop' })).toBeVisible()
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'shop', exact: true }).click()
    await page.getByRole('button', { name: 'Delete' }).click()
    const dialog = page.getByRole('dialog', { name: 'Delete shop?' })
    await expect(dialog.getByRole('alert')).toContainText('To the shop')
    await expect(dialog.getByRole('button', { name: 'Delete' })).toBeDisabled()
    await expectAccessible(page)
    await dialog.getByRole('link', { name: 'To the shop' }).click()
    await expect(page.getByLabel('Name')).toHaveValue('To the shop')

    await test.step('and is found by its address', async () => {
      await page.goto('/')
      await settled(page)
      await page.keyboard.press('Control+K')
      await page.getByPlaceholder('Search pages, objects and actions…').fill('10.10.0.20')
      await page.getByRole('button', { name: 'shop' }).click()
      await expect(page.getByLabel('Value')).toHaveValue('10.10.0.20')
    })
  })
})

test.describe('a NAT rule', () => {
  test.use({ expected: [409] })

  test("says what it does, and only takes the gateway's own ports if told to", async ({ page }) => {
    await page.goto('/firewall/nat')
    await page.getByRole('link', { name: 'Add a NAT rule' }).click()
    await page.getByLabel('Name').fill('Shop')
    await choose(page, 'From zone', 'lan')
    await page.getByLabel('Port', { exact: true }).fill('443')
    await page.getByLabel('Target address').fill('10.10.0.99')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.getByRole('dialog').getByRole('alert')).toContainText('of the gateway itself')
    await expectAccessible(page)

    await page.getByLabel('Port', { exact: true }).fill('8443')
    await page.getByLabel('Target port').fill('443')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.getByRole('dialog')).toBeHidden()
    await expect(page.getByRole('cell', { name: 'tcp 8443 from lan to this gateway' })).toBeVisible()
    await expect(page.getByRole('cell', { name: '10.10.0.99:443' })).toBeVisible()
    expect(onGateway('nft', 'list', 'table', 'inet', 'gateway')).toContain('10.10.0.99')

    await test.step('one of two families has no effect, and says so', async () => {
      await make('/nat-rules', {
        name: 'Mixed',
        kind: 'snat',
        in_zone: 'lan',
        out_zone: 'wan',
        protocol: 'any',
        src_cidr: '10.10.0.0/24',
        target_address: '2001:db8::1',
      })
      await page.reload()
      await expect(page.getByRole('row').filter({ hasText: 'Mixed' })).toContainText('has no effect')
    })
  })
})

test('the built-in rules are shown, with what happens to everything else', async ({ page }) => {
  await page.goto('/firewall/rules')
  const rows = page.getByRole('table', { name: 'Built-in rules' }).getByRole('row')
  await expect(rows.filter({ hasText: 'Anti-lockout' })).toContainText('tcp/22, tcp/443, tcp/3443, udp/443')
  await expect(rows.last()).toContainText('Everything else')
  await expect(rows.last()).toContainText('drop')
})

test('a select shows what will be saved', async ({ page }) => {
  const save = page.getByRole('button', { name: 'Save', exact: true })
  await page.goto('/firewall/rules/new')
  await page.getByLabel('Name').fill('Typed by hand')
  const from = page.getByRole('combobox', { name: 'From zone' })
  await from.click()
  await page.keyboard.type('any')
  await page.keyboard.press('Tab')
  await from.click()
  await page.keyboard.type('lan')
  await expect(from).toHaveValue('lan')
  await choose(page, 'To zone', 'wan')

  const service = page.getByRole('combobox', { name: 'Service' })
  await service.click()
  await page.keyboard.type('8443')
  await save.click()
  await expect(page.getByText('“8443” is not one of the choices.')).toBeVisible()
  await expect(service).toHaveValue('8443')
  await service.press('Control+Enter')
  await expect(page.getByText('“8443” is not one of the choices.')).toBeVisible()
  await expectAccessible(page)
  expect((await rules()).some(({ name }) => name === 'Typed by hand')).toBe(false)

  await service.fill('tcp/8643')
  await page.getByRole('option', { name: 'Create service tcp/8643' }).click()
  await expect(service).toHaveValue(/^tcp\/8643 · /)
  await expectAccessible(page)

  await service.fill('any service')
  await save.click()
  await expect(page.getByText('The change is live.')).toBeVisible()
  expect((await rules()).find(({ name }) => name === 'Typed by hand')).toMatchObject({
    src_zone: 'lan',
    dst_zone: 'wan',
    service_object_id: null,
    service_group_id: null,
  })
})

test('a rule opens nothing by default, and asks before it opens the LAN', async ({ page }) => {
  await page.goto('/firewall/rules/new')
  const name = page.getByLabel('Name')
  await name.fill('Wide open')
  await name.press('Control+Enter')
  await expect(page.getByText('This field is required.')).toHaveCount(3)

  await choose(page, 'From zone', 'wan')
  await choose(page, 'To zone', 'lan')
  await choose(page, 'Service', 'any service')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(page.getByText('This lets the whole internet reach lan.')).toBeVisible()
  expect((await rules()).some(({ name }) => name === 'Wide open')).toBe(false)
  await expectAccessible(page)

  await page.getByRole('button', { name: 'Save anyway' }).click()
  const row = page.getByRole('row').filter({ hasText: 'Wide open' })
  await expect(row).toContainText('open to the internet')
  await page.getByText('1 open to the internet').click()
  await expect(page.getByRole('listitem').filter({ hasText: 'Wide open' })).toBeVisible()
  await expectAccessible(page)

  await test.step('the switch asks too', async () => {
    const dialog = page.getByRole('dialog', { name: 'Make this change anyway?' })
    await row.getByRole('switch').click()
    await expect(page.getByText('Wide open is off')).toBeVisible()
    await expect(row).not.toContainText('open to the internet')
    await row.getByRole('switch').click()
    await expect(dialog).toContainText('This lets the whole internet reach lan.')
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await expect(row.getByRole('switch')).not.toBeChecked()
  })
})

test.describe('many rules', () => {
  const many = Array.from({ length: 1200 }, (_, number) => ({
    kind: 'firewall.rule',
    id: crypto.randomUUID(),
    body: { name: `Many ${number}`, src_zone: 'lan', dst_zone: 'wan', action: 'accept', enabled: false },
  }))
  const parts = [many.slice(0, 400), many.slice(400, 800), many.slice(800)]

  test.beforeAll(async () => {
    for (const part of parts) await makeAll(part)
  })
  test.afterAll(async () => {
    for (const part of parts) await clearAll(part)
  })

  test('are moved one at a time', async ({ page }) => {
    const order = async () => (await rules()).map(({ name }) => name)
    const act = async (name: string, item: string) => {
      await page.goto(`/firewall/rules?q=${encodeURIComponent(name)}`)
      await settled(page)
      await page.getByRole('button', { name: `More actions for ${name}`, exact: true }).click()
      await page.getByRole('menuitem', { name: item }).click()
    }
    await act('Many 1199', 'Move to the top')
    await expect.poll(async () => (await order())[0]).toBe('Many 1199')
    await act('Many 1198', 'Move to position…')
    await page.getByLabel(/^Position/).fill('3')
    await page.getByRole('button', { name: 'Move', exact: true }).click()
    await expect.poll(async () => (await order())[2]).toBe('Many 1198')
    await act('Many 1199', 'Move to the bottom')
    await expect.poll(async () => (await order()).at(-1)).toBe('Many 1199')
  })
})

test('a packet is explained', async ({ page }) => {
  await page.goto('/firewall/explain')
  await page.getByLabel('Source address').fill('10.10.0.2')
  await page.getByLabel('Destination address').fill(gateway)
  await page.getByLabel('Destination port').fill('8444')
  await page.getByRole('button', { name: 'Explain', exact: true }).click()
  await expect(page.getByRole('listitem').filter({ hasText: 'Input' }).first()).toContainText('stopped')
  await expect(page.getByText('decides', { exact: true })).toBeVisible()
  await expect(page).toHaveURL(/destination_port=8444/)
  await page.getByRole('button', { name: 'My own connection' }).click()
  await expect(page.getByText('stopped')).toHaveCount(0)
  await expectAccessible(page)
})

test('the log shows a dropped packet as it happens', async ({ page }) => {
  await page.goto('/firewall/log')
  await expect(page.getByText('up to date')).toBeVisible()
  await settled(page)
  const row = page
    .getByRole('row')
    .filter({ hasText: `${gateway}:8444` })
    .first()
  await knockUntil(row, 8444)
  await expect(row).toContainText('drop')
  await expect(row).toContainText('default, input')
  await expectAccessible(page)

  await test.step('what the gateway filters does not arrive', async () => {
    await choose(page, 'Protocol', 'udp')
    await expect(page).toHaveURL(/proto=udp/)
    knock(8445)
    await expect(page.getByText(`${gateway}:8445`)).toHaveCount(0)
    await choose(page, 'Protocol', 'tcp')
    await knockUntil(page.getByText(`${gateway}:8445`).first(), 8445)
  })

  await test.step('a paused log waits', async () => {
    await page.getByRole('button', { name: 'Pause' }).click()
    await knockUntil(page.getByText(/paused, [1-9]/), 8446)
    await expect(page.getByText(`${gateway}:8446`)).toHaveCount(0)
    await page.getByRole('button', { name: 'Resume' }).click()
    await expect(page.getByText(`${gateway}:8446`).first()).toBeVisible()
  })

  await test.step('an event becomes a question, and a rule', async () => {
    const more = () => row.getByRole('button', { name: /^More actions for/ }).click()
    await more()
    await page.getByRole('menuitem', { name: 'Explain packet' }).click()
    await expect(page.getByLabel('Destination port')).toHaveValue('8444')
    await expect(page.getByText('stopped')).toBeVisible()
    await page.goBack()
    await more()
    await page.getByRole('menuitem', { name: 'Create rule' }).click()
    await expect(page.getByLabel('Destination network')).toHaveValue(`${gateway}/32`)
    await expect(page.getByRole('combobox', { name: 'From zone' })).toHaveValue('lan')
    await expect(page.getByRole('combobox', { name: 'To zone' })).toHaveValue('this gateway')
  })
})
