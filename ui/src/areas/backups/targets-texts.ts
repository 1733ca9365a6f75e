import { addTexts } from '../../i18n/i18n'
import en from './targets.json'

addTexts('targets', en)
