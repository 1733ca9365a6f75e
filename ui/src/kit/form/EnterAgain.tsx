import { useTranslation } from 'react-i18next'
import { Notice } from '../state/Notice'
import type { FieldSpec } from './fields'
import classes from './notices.module.css'

/** The secrets of a row that were encrypted with another master key, by API name. */
const lost = (row: object): readonly string[] => (row as { enter_again?: string[] }).enter_again ?? []

/** The form field that a secret belongs to: the one that covers it most specifically. */
function fieldOf(secret: string, fields: readonly FieldSpec[]): string {
  const reach = ({ name, covers = [] }: FieldSpec) =>
    Math.max(...[name, ...covers].map((one) => (`${secret}.`.startsWith(`${one}.`) ? one.length : 0)))
  const best = fields.reduce((a, b) => (reach(b) > reach(a) ? b : a))
  return best.name
}

/** The form fields whose secrets must be entered again. */
export const lostFields = (row: object, fields: readonly FieldSpec[]): string[] => [
  ...new Set(lost(row).map((secret) => fieldOf(secret, fields))),
]

interface NoticeProps {
  row: object
  fields: readonly FieldSpec[]
  text: string
}

/** Says above a form which secrets must be entered again. */
export function EnterAgainNotice({ row, fields, text }: NoticeProps) {
  const { t } = useTranslation()
  const names = lostFields(row, fields).map((name) => t(`${text}.${name}.label`))
  if (names.length === 0) return null
  return (
    <div className={classes.notice}>
      <Notice tone="bad" title={t('secret.lostTitle')}>
        {t('secret.lost', { names: names.join(', ') })}
      </Notice>
    </div>
  )
}
