import { pages, schemes, screenshots, settled, test } from './gateway'

const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }

for (const colorScheme of schemes) {
  for (const [device, viewport] of Object.entries(sizes)) {
    test.describe(`${colorScheme} ${device}`, () => {
      test.use({ colorScheme, viewport })
      for (const [name, path] of Object.entries({ ...pages, login: '/login' })) {
        test(name, async ({ page }) => {
          await page.goto(path)
          await settled(page)
          // The charts of the overview need a few samples before they show anything.
          if (name === 'overview') await page.waitForTimeout(10_000)
          const suffix = device === 'phone' ? '-phone' : ''
          await page.screenshot({ path: `${screenshots}/${name}-${colorScheme}${suffix}.png` })
        })
      }
    })
  }
}
