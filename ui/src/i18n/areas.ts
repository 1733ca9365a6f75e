import i18n, { addTexts } from './i18n'

const files = import.meta.glob<{ default: object }>('../areas/*/en.json')

/** Loads the texts of an area whose pages are not open. */
export async function loadArea(area: string): Promise<void> {
  if (i18n.hasResourceBundle('en', area)) return
  addTexts(area, (await files[`../areas/${area}/en.json`]?.())?.default ?? {})
}
