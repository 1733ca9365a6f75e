import i18next from 'i18next'
import { initReactI18next } from 'react-i18next'
import common from './en/common.json'

// One file of texts per area. The common one is always there; an area's chunk brings its own.
void i18next.use(initReactI18next).init({
  lng: 'en',
  fallbackLng: 'en',
  defaultNS: 'common',
  resources: { en: { common } },
  interpolation: { escapeValue: false },
})

export function addTexts(area: string, texts: object) {
  i18next.addResourceBundle('en', area, texts, true, true)
}

export default i18next
