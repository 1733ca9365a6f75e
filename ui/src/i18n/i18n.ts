import i18next from 'i18next'
import { initReactI18next, setI18n } from 'react-i18next'
import common from './en/common.json'

// One file of texts per area. The common one is always there; an area's chunk brings its own.
void i18next.use(initReactI18next).init({
  lng: 'en',
  fallbackLng: 'en',
  defaultNS: 'common',
  resources: { en: { common } },
  interpolation: { escapeValue: false },
  // There is one language: nothing has to listen for another.
  react: { bindI18n: false },
  // A missing text is a fault of the program; the browser tests fail on it.
  saveMissing: true,
  missingKeyHandler: (_, area, key) => console.error(`No text for ${area}:${key}`),
})

// Each component with texts copies all own properties of this object, in a list for every row that comes into sight. It has none: it inherits
// them.
setI18n(Object.create(i18next))

export function addTexts(area: string, texts: object) {
  i18next.addResourceBundle('en', area, texts, true, true)
}

/** A text that need not be there, such as the help of a field that needs none. */
export function optionalText(key: string): string | undefined {
  return i18next.exists(key) ? i18next.t(key) : undefined
}

export default i18next
