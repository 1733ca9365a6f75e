import type { Locator, Page } from '@playwright/test'

/** How a test operates the page. A job is written once, and runs with the mouse and with the keyboard alone. */
export interface Hands {
  name: string
  press(target: Locator): Promise<void>
  fill(field: Locator, text: string): Promise<void>
  check(box: Locator): Promise<void>
  /** Selects a radio button. */
  pick(radio: Locator): Promise<void>
  choose(box: Locator, option: Locator): Promise<void>
  /** The limit on clicks, given the one for the mouse. */
  clicks(limit: number): number
}

export const mouse: Hands = {
  name: 'mouse',
  press: (target) => target.click(),
  fill: (field, text) => field.fill(text),
  check: (box) => box.check({ force: true }),
  async pick(radio) {
    // The button itself is hidden behind its label.
    await radio
      .page()
      .locator(`label[for="${await radio.getAttribute('id')}"]`)
      .click()
  },
  async choose(box, option) {
    await box.click()
    await option.click()
  },
  clicks: (limit) => limit,
}

/** Presses a key until `reached` is true. 250 presses get anywhere on a page. */
async function until(page: Page, key: string, reached: () => Promise<boolean>) {
  for (let presses = 0; presses < 250; presses++) {
    if (await reached()) return
    await page.keyboard.press(key)
  }
  throw new Error(`${key} does not lead there: ${await page.evaluate(() => document.activeElement?.outerHTML)}`)
}

async function reach(target: Locator) {
  await target.waitFor({ state: 'attached' })
  const key = (await target.getAttribute('role')) === 'menuitem' ? 'ArrowDown' : 'Tab'
  await until(target.page(), key, () => target.evaluate((element) => element === document.activeElement))
}

/** Moves the focus with Tab and the arrow keys, and presses keys on the focused element. */
export const keyboard: Hands = {
  name: 'keyboard',
  async press(target) {
    await reach(target)
    await target.page().keyboard.press('Enter')
  },
  async fill(field, text) {
    await reach(field)
    await field.page().keyboard.press('Control+A')
    await field.page().keyboard.type(text)
  },
  async check(box) {
    await reach(box)
    await box.page().keyboard.press('Space')
  },
  async pick(radio) {
    await reach(radio.locator('xpath=ancestor::*[@role="radiogroup"]').getByRole('radio', { checked: true }))
    await until(radio.page(), 'ArrowRight', () => radio.isChecked())
  },
  async choose(box, option) {
    await reach(box)
    await until(box.page(), 'ArrowDown', async () =>
      option.evaluateAll((found) => found.some((one) => one.hasAttribute('data-combobox-selected'))),
    )
    await box.page().keyboard.press('Enter')
  },
  clicks: () => 0,
}
