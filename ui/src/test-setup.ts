import './i18n/i18n'
