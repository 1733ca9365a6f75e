import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../../api/session'
import { Notice } from '../../kit/state/Notice'

/** Tools send packets. A viewer is told so instead of being refused. */
export function AdminsOnly({ children }: { children: ReactNode }) {
  const { t } = useTranslation('diagnostics')
  return useCanEdit() ? children : <Notice tone="off">{t('adminsOnly')}</Notice>
}
