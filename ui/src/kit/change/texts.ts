import { addTexts } from '../../i18n/i18n'
import en from './en.json'

addTexts('change', en)
