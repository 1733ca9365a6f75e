import i18next from 'i18next'
import { initReactI18next, setI18n } from 'react-i18next'
import common from './en/common.json'

// Each area has a file of texts, which comes with its chunk. The common one is always loaded.
void i18next.use(initReactI18next).init({
  lng: 'en',
  fallbackLng: 'en',
  defaultNS: 'common',
  resources: { en: { common } },
  interpolation: { escapeValue: false },
  // There is only one language, so no component needs to listen for changes.
  react: { bindI18n: false },
  // A missing text is a bug; the browser tests fail on it.
  saveMissing: true,
  missingKeyHandler: (_, area, key) => console.error(`No text for ${area}:${key}`),
})

// Every component with texts copies this object's own properties, which is slow in long lists. An object that only
// inherits them has none.
setI18n(Object.create(i18next))

export function addTexts(area: string, texts: object) {
  i18next.addResourceBundle('en', area, texts, true, true)
}

/** A text that may be missing, such as a field's help. */
export function optionalText(key: string): string | undefined {
  return i18next.exists(key) ? i18next.t(key) : undefined
}

export default i18next
